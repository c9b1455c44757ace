//! Evaluation of nodes over the rows of one batch.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use hogql::types::Type;

use crate::RUN_BYTES_MAX;
use crate::error::{Error, Result};
use crate::limits::cancellation::Cancellation;
use crate::limits::meter;
use crate::run::node::{Function, Kernel, Node, NodeKind};
use crate::vector::column::{Args, Column, is_true};
use crate::vector::dictionary::DictionaryColumn;
use crate::vector::gather::{bytes_of, concat, interleave};
use crate::vector::types::{bools_to_ints, null_or_default, wide_type, widen};

/// Inputs and lambda parameters of the nodes that run over one set of rows.
pub(crate) struct Scope<'a> {
    inputs: &'a [ArrayRef],
    pub rows: usize,
    /// Inputs in the wide representation, filled on first use. One input may be read as several
    /// types: a property as the string that is stored, and as the number that it is defined as.
    wide: RefCell<Vec<Vec<(Type, Column)>>>,
    dictionaries: RefCell<Vec<Option<Arc<DictionaryColumn>>>>,
    /// Bytes of all results so far, shared with nested scopes.
    result_bytes: Rc<Cell<usize>>,
    pub cancellation: Cancellation,
    nested: Option<Nested<'a>>,
}

/// A selection of rows of the enclosing scope; a row may occur several times.
struct Nested<'a> {
    outer: &'a Scope<'a>,
    indices: &'a UInt32Array,
    /// Parameters of a lambda. Empty if the scope only selects the rows that need a value.
    params: Vec<(usize, Column)>,
}

impl<'a> Scope<'a> {
    pub fn root(inputs: &'a [ArrayRef], rows: usize, cancellation: &Cancellation) -> Self {
        let wide = RefCell::new(vec![Vec::new(); inputs.len()]);
        let dictionaries = RefCell::new(vec![None; inputs.len()]);
        let (result_bytes, cancellation) = (Rc::default(), cancellation.clone());
        Self { inputs, rows, wide, dictionaries, result_bytes, cancellation, nested: None }
    }

    /// A scope over other rows that counts towards the same result bytes.
    fn over<'b>(&self, inputs: &'b [ArrayRef], rows: usize) -> Scope<'b> {
        let result_bytes = Rc::clone(&self.result_bytes);
        Scope { result_bytes, ..Scope::root(inputs, rows, &self.cancellation) }
    }

    /// The scope of a lambda's body, with a row per element; `indices` maps each to its row here.
    pub fn lambda(&'a self, indices: &'a UInt32Array, params: Vec<(usize, Column)>) -> Self {
        let nested = Some(Nested { outer: self, indices, params });
        Self { nested, ..self.over(&[], indices.len()) }
    }

    /// A scope of only these rows.
    fn select(&'a self, indices: &'a UInt32Array) -> Self {
        self.lambda(indices, Vec::new())
    }

    pub fn eval(&self, node: &Node) -> Result<Column> {
        let column = self.eval_node(node).map_err(|error| error.at(node.span))?;
        if !matches!(node.kind, NodeKind::Constant(_) | NodeKind::Input(..) | NodeKind::Param(_)) {
            let bytes = bytes_of(&column.array)?;
            meter::charge_run(bytes)?;
            let total = self.result_bytes.get().saturating_add(bytes);
            self.result_bytes.set(total);
            if total > RUN_BYTES_MAX {
                let what = "bytes for a batch of rows";
                return Err(Error::TooLarge { what, max: RUN_BYTES_MAX, span: node.span });
            }
        }
        Ok(column)
    }

    fn eval_node(&self, node: &Node) -> Result<Column> {
        if let NodeKind::Constant(array) = &node.kind {
            return Ok(Column::constant(Arc::clone(array)));
        }
        if let Some(column) = self.outer_value(node)? {
            return Ok(column);
        }
        if let Some(dictionary) = self.dictionary_of(node) {
            let eval = |input: &ArrayRef| {
                let entries = self.entry_inputs(node, input);
                let scope = self.over(&entries, input.len());
                scope.eval(node)?.expand(input.len())
            };
            let wanted = wide_type(&node.ty.kind);
            if let Some(array) = node.memo.by_entry(&dictionary, &wanted, eval)? {
                return Ok(Column::full(array));
            }
        }
        match &node.kind {
            NodeKind::Constant(array) => Ok(Column::constant(Arc::clone(array))),
            NodeKind::Input(input, parse) => self.input(*input, parse.as_ref(), &node.ty),
            NodeKind::Param(param) => {
                Err(Error::invalid(format!("no parameter {param}"), node.span))
            }
            NodeKind::Call(args, Function { kernel, strict }) => {
                let columns = self.eval_all(args)?;
                if self.rows == 0 {
                    return null_or_default(&node.ty, 0).map(Column::full);
                }
                let constant = columns.iter().all(|column| column.constant);
                let rows = if constant { 1 } else { self.rows };
                let chunks = self.run_in_chunks(&columns, rows, *strict, &**kernel)?;
                let array = concat(chunks)?;
                debug_assert_eq!(array.len(), rows, "{node:?}");
                Ok(Column { array, constant })
            }
            NodeKind::Predicate(..) | NodeKind::And(_) | NodeKind::Or(_) | NodeKind::Not(_) => {
                let bools = self.eval_bools(node)?;
                Ok(Column::full(bools_to_ints(&bools)))
            }
            NodeKind::Case(branches, otherwise) => self.case(branches, otherwise),
            NodeKind::HigherOrder { function, lambda, arrays } => {
                let lambda = lambda.as_ref().map(|(params, body)| (&params[..], &**body));
                function.apply(self, lambda, arrays, &node.ty, node.span)
            }
        }
    }

    pub fn eval_all(&self, nodes: &[Node]) -> Result<Vec<Column>> {
        nodes.iter().map(|node| self.eval(node)).collect()
    }

    /// Evaluates a node as a condition, with one boolean per row of the scope.
    pub fn eval_bools(&self, node: &Node) -> Result<BooleanArray> {
        if let Some(dictionary) = self.dictionary_of(node) {
            let eval = |input: &ArrayRef| -> Result<ArrayRef> {
                let entries = self.entry_inputs(node, input);
                Ok(Arc::new(self.over(&entries, input.len()).eval_bools(node)?))
            };
            if let Some(array) = node.memo.by_entry(&dictionary, &DataType::Boolean, eval)? {
                return Ok(array.as_boolean().clone());
            }
        }
        let evaluated_here = self.nested.as_ref().is_none_or(|nested| nested.owns(node));
        match &node.kind {
            NodeKind::Predicate(args, Function { kernel, strict }) if evaluated_here => {
                let columns = self.eval_all(args)?;
                let chunks = self.run_in_chunks(&columns, self.rows, *strict, &|args: &Args| {
                    Ok(Arc::new(kernel(args)?) as ArrayRef)
                })?;
                Ok(concat(chunks)?.as_boolean().clone())
            }
            NodeKind::And(operands) if evaluated_here => self.and_or(operands, true),
            NodeKind::Or(operands) if evaluated_here => self.and_or(operands, false),
            NodeKind::Not(operand) if evaluated_here => {
                let bools = self.eval_bools(operand)?;
                Ok(BooleanArray::new(!bools.values(), bools.nulls().cloned()))
            }
            _ => Ok(is_true(&self.eval(node)?.expand(self.rows)?)),
        }
    }

    /// Three-valued `AND`, or `OR`: a row is decided by its first false, or true, operand; a null
    /// does not decide.
    fn and_or(&self, operands: &[Node], and: bool) -> Result<BooleanArray> {
        let mut decided = BooleanBuffer::new_unset(self.rows);
        let mut unknown = BooleanBuffer::new_unset(self.rows);
        for operand in operands {
            let bools = if operand.fallible {
                let open = UInt32Array::from_iter_values((!&decided).set_indices_u32());
                let bools = self.select(&open).eval_bools(operand)?;
                scatter(&bools, &open, self.rows)
            } else {
                self.eval_bools(operand)?
            };
            let valid = bools.nulls().map(NullBuffer::inner);
            let decides = if and { !bools.values() } else { bools.values().clone() };
            decided = match valid {
                Some(valid) => &decided | &(&decides & valid),
                None => &decided | &decides,
            };
            if let Some(valid) = valid {
                unknown = &unknown | &!valid;
            }
        }
        let values = if and { !&decided } else { decided.clone() };
        let valid = &decided | &!&unknown;
        let nulls = Some(NullBuffer::new(valid)).filter(|nulls| nulls.null_count() > 0);
        Ok(BooleanArray::new(values, nulls))
    }

    fn case(&self, branches: &[(Node, Node)], otherwise: &Node) -> Result<Column> {
        // The branch that each row takes.
        let mut chosen = vec![branches.len(); self.rows];
        let mut open = BooleanBuffer::new_set(self.rows);
        for (no, (when, _)) in branches.iter().enumerate() {
            let bools = if when.fallible {
                let rows = UInt32Array::from_iter_values(open.set_indices_u32());
                scatter(&self.select(&rows).eval_bools(when)?, &rows, self.rows)
            } else {
                self.eval_bools(when)?
            };
            let holds = match bools.nulls() {
                Some(nulls) => bools.values() & nulls.inner(),
                None => bools.values().clone(),
            };
            let taken = &holds & &open;
            taken.set_indices().for_each(|row| chosen[row] = no);
            open = &open & &!&holds;
        }
        let values = branches.iter().map(|(_, then)| then).chain([otherwise]);
        let mut arrays: Vec<ArrayRef> = Vec::new();
        // For each row, the array and the position that hold its value.
        let mut positions = vec![(0, 0); self.rows];
        for (no, value) in values.enumerate() {
            let takes_branch = |row: &usize| chosen[*row] == no;
            if value.fallible {
                let rows: Vec<u32> =
                    (0..self.rows).filter(takes_branch).map(|row| row as u32).collect();
                rows.iter().enumerate().for_each(|(at, row)| positions[*row as usize] = (no, at));
                let rows = UInt32Array::from(rows);
                let scope = self.select(&rows);
                arrays.push(scope.eval(value)?.expand(rows.len())?);
            } else {
                let column = self.eval(value)?;
                for row in (0..self.rows).filter(takes_branch) {
                    positions[row] = (no, if column.constant { 0 } else { row });
                }
                arrays.push(column.array);
            }
        }
        Ok(Column::full(interleave(&arrays, &positions)?))
    }

    /// Evaluates a node that does not depend on this scope in the enclosing one, which has fewer
    /// rows or can evaluate per dictionary entry.
    fn outer_value(&self, node: &Node) -> Result<Option<Column>> {
        let Some(nested) = &self.nested else { return Ok(None) };
        if let NodeKind::Param(param) = node.kind
            && let Some((_, column)) = nested.params.iter().find(|(bound, _)| *bound == param)
        {
            return Ok(Some(column.clone()));
        }
        if nested.owns(node) {
            return Ok(None);
        }
        nested.outer.eval(node)?.take(nested.indices).map(Some)
    }

    /// The only input of a node, if it is dictionary-encoded. A fallible node must not run for
    /// entries that no row refers to.
    fn dictionary_of(&self, node: &Node) -> Option<Arc<DictionaryColumn>> {
        let [input] = node.inputs[..] else { return None };
        if self.nested.is_some() || node.fallible || !node.params.is_empty() {
            return None;
        }
        // An input that need not be parsed is only looked up.
        if matches!(node.kind, NodeKind::Input(_, None)) {
            return None;
        }
        self.dictionary(input)
    }

    fn dictionary(&self, input: usize) -> Option<Arc<DictionaryColumn>> {
        if let Some(Some(dictionary)) = self.dictionaries.borrow().get(input) {
            return Some(Arc::clone(dictionary));
        }
        let dictionary = Arc::new(DictionaryColumn::of(self.inputs.get(input)?)?);
        if let Some(slot) = self.dictionaries.borrow_mut().get_mut(input) {
            *slot = Some(Arc::clone(&dictionary));
        }
        Some(dictionary)
    }

    /// The inputs with the dictionary's entries in place of the node's only input.
    fn entry_inputs(&self, node: &Node, entries: &ArrayRef) -> Vec<ArrayRef> {
        let mut inputs = self.inputs.to_vec();
        if let [input] = node.inputs[..] {
            inputs[input] = Arc::clone(entries);
        }
        inputs
    }

    fn input(&self, input: usize, parse: Option<&Kernel>, ty: &Type) -> Result<Column> {
        let is_type = |(known, _): &&(Type, Column)| known == ty;
        if let Some((_, column)) =
            self.wide.borrow().get(input).and_then(|known| known.iter().find(is_type))
        {
            return Ok(column.clone());
        }
        let Some(array) = self.inputs.get(input) else {
            let expected = format!("input {input}");
            return Err(Error::InputType { expected, found: "nothing".to_owned() });
        };
        let read = |array: &ArrayRef| -> Result<ArrayRef> {
            let is_string = matches!(
                array.data_type(),
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            );
            match parse {
                Some(parse) if is_string => {
                    let strings = widen(array, &hogql::types::Kind::String.into())?;
                    let columns = [Column::full(strings)];
                    let nulls = Args::any_null(&columns, array.len());
                    parse(&Args { columns: &columns, rows: array.len(), nulls })
                }
                _ => widen(array, ty),
            }
        };
        let wide = match self.dictionary(input) {
            Some(dictionary) => dictionary.rows(read)?,
            None => read(array)?,
        };
        let column = Column::full(wide);
        if let Some(known) = self.wide.borrow_mut().get_mut(input) {
            known.push((ty.clone(), column.clone()));
        }
        Ok(column)
    }
}

impl Nested<'_> {
    /// Whether a node must run in this scope: it reads the lambda's parameters, or it may fail
    /// for rows that are not selected.
    fn owns(&self, node: &Node) -> bool {
        if self.params.is_empty() {
            let leaf = matches!(node.kind, NodeKind::Input(..) | NodeKind::Param(_));
            return node.fallible && !leaf;
        }
        self.params.iter().any(|(param, _)| node.params.contains(param))
    }
}

/// Expands the results for selected rows to all rows; the others become false.
fn scatter(bools: &BooleanArray, rows: &UInt32Array, all: usize) -> BooleanArray {
    let mut values = vec![false; all];
    let mut valid = vec![true; all];
    for (at, row) in rows.values().iter().enumerate() {
        values[*row as usize] = bools.value(at);
        valid[*row as usize] = bools.is_valid(at);
    }
    let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
    BooleanArray::new(BooleanBuffer::from(values), nulls)
}
