//! A compiled expression, and how it runs.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use hogql::Span;
use hogql::types::Type;

use crate::RUN_BYTES_MAX;
use crate::cancellation::Cancellation;
use crate::column::{Args, Column, is_true};
use crate::dictionary::{Coded, Memo};
use crate::error::{Error, Result};
use crate::functions::lambdas::Higher;
use crate::gather::{interleave, joined};
use crate::meter;
use crate::types::{nothing, truth_to_ints, wide_type, widen};

pub(crate) type Call = Arc<dyn Fn(&Args) -> Result<ArrayRef> + Send + Sync>;
pub(crate) type Test = Arc<dyn Fn(&Args) -> Result<BooleanArray> + Send + Sync>;
/// How an input is read that holds the text of a value and not the value.
pub(crate) type Read = Option<Call>;

#[derive(Clone)]
pub(crate) struct Node {
    pub kind: NodeKind,
    pub ty: Type,
    pub span: Span,
    /// Those it reads, sorted.
    pub inputs: Vec<usize>,
    /// Parameters of lambdas around it that it reads, sorted.
    pub params: Vec<usize>,
    /// Whether it can fail for some values: then it only meets those that it is asked about.
    pub fails: bool,
    pub memo: Memo,
}

#[derive(Clone)]
pub(crate) enum NodeKind {
    Constant(ArrayRef),
    Input(usize, Read),
    Param(usize),
    Call(Vec<Node>, Run<Call>),
    Test(Vec<Node>, Run<Test>),
    All(Vec<Node>),
    Any(Vec<Node>),
    Not(Box<Node>),
    /// Conditions and values, and the value for the rest; all values are of the node's type.
    Choose(Vec<(Node, Node)>, Box<Node>),
    Higher {
        run: Higher,
        lambda: Option<(Vec<usize>, Box<Node>)>,
        arrays: Vec<Node>,
    },
}

#[derive(Clone)]
pub(crate) struct Run<F> {
    pub run: F,
    /// Null if an argument is.
    pub strict: bool,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.kind {
            NodeKind::Constant(_) => "Constant",
            NodeKind::Input(..) => "Input",
            NodeKind::Param(_) => "Param",
            NodeKind::Call(..) => "Call",
            NodeKind::Test(..) => "Test",
            NodeKind::All(_) => "All",
            NodeKind::Any(_) => "Any",
            NodeKind::Not(_) => "Not",
            NodeKind::Choose(..) => "Choose",
            NodeKind::Higher { .. } => "Higher",
        };
        let mut shown = f.debug_struct(name);
        shown.field("type", &self.ty.to_string()).field("inputs", &self.inputs);
        if let NodeKind::Constant(array) = &self.kind {
            shown.field("value", array);
        }
        for part in self.parts() {
            shown.field("part", part);
        }
        shown.finish()
    }
}

impl Node {
    pub fn new(kind: NodeKind, ty: Type, span: Span) -> Self {
        let mut node = Self {
            kind,
            ty,
            span,
            inputs: vec![],
            params: vec![],
            fails: false,
            memo: Memo::default(),
        };
        let (mut inputs, mut params, mut fails) = (Vec::new(), Vec::new(), false);
        for part in node.parts() {
            inputs.extend_from_slice(&part.inputs);
            params.extend_from_slice(&part.params);
            fails |= part.fails;
        }
        match &node.kind {
            NodeKind::Input(input, _) => inputs.push(*input),
            NodeKind::Param(param) => params.push(*param),
            NodeKind::Higher { lambda: Some((own, body)), .. } => {
                inputs.extend_from_slice(&body.inputs);
                params.extend(body.params.iter().filter(|param| !own.contains(param)));
                fails |= body.fails;
            }
            _ => {}
        }
        inputs.sort_unstable();
        inputs.dedup();
        params.sort_unstable();
        params.dedup();
        node.inputs = inputs;
        node.params = params;
        node.fails = fails;
        node
    }

    pub fn constant(array: ArrayRef, ty: Type, span: Span) -> Self {
        Self::new(NodeKind::Constant(array), ty, span)
    }

    pub fn as_constant(&self) -> Option<&ArrayRef> {
        match &self.kind {
            NodeKind::Constant(array) => Some(array),
            _ => None,
        }
    }

    /// Beside the body of a lambda.
    fn parts(&self) -> Vec<&Self> {
        match &self.kind {
            NodeKind::Constant(_) | NodeKind::Input(..) | NodeKind::Param(_) => Vec::new(),
            NodeKind::Call(parts, _)
            | NodeKind::Test(parts, _)
            | NodeKind::All(parts)
            | NodeKind::Any(parts)
            | NodeKind::Higher { arrays: parts, .. } => parts.iter().collect(),
            NodeKind::Not(part) => vec![part],
            NodeKind::Choose(branches, otherwise) => {
                let branches = branches.iter().flat_map(|(when, then)| [when, then]);
                branches.chain([&**otherwise]).collect()
            }
        }
    }

    /// A constant in its place, if it depends on nothing. What fails is left to fail when it runs,
    /// where it may not be asked.
    pub fn fold(self, cancellation: &Cancellation) -> Result<Self> {
        let whole = self.inputs.is_empty() && self.params.is_empty();
        if !whole || self.as_constant().is_some() {
            return Ok(self);
        }
        match Scope::root(&[], 1, cancellation).eval(&self) {
            Ok(column) => Ok(Self::constant(column.array, self.ty, self.span)),
            Err(error @ (Error::Cancelled | Error::MemoryLimit)) => Err(error),
            Err(_) => Ok(self),
        }
    }
}

/// What a node's inputs and parameters are while it runs.
pub(crate) struct Scope<'a> {
    inputs: &'a [ArrayRef],
    pub rows: usize,
    wide: RefCell<Vec<Option<Column>>>,
    coded: RefCell<Vec<Option<Arc<Coded>>>>,
    /// Bytes that were worked out so far, also in scopes within.
    spent: Rc<Cell<usize>>,
    pub cancellation: Cancellation,
    inner: Option<Inner<'a>>,
}

/// Some rows of the scope around it, each as often as it is listed.
struct Inner<'a> {
    outer: &'a Scope<'a>,
    indices: &'a UInt32Array,
    /// Those of a lambda; without any these are the rows that are asked about.
    params: Vec<(usize, Column)>,
}

impl<'a> Scope<'a> {
    pub fn root(inputs: &'a [ArrayRef], rows: usize, cancellation: &Cancellation) -> Self {
        let wide = RefCell::new(vec![None; inputs.len()]);
        let coded = RefCell::new(vec![None; inputs.len()]);
        let (spent, cancellation) = (Rc::default(), cancellation.clone());
        Self { inputs, rows, wide, coded, spent, cancellation, inner: None }
    }

    /// For other rows on the same account.
    fn over<'b>(&self, inputs: &'b [ArrayRef], rows: usize) -> Scope<'b> {
        Scope { spent: Rc::clone(&self.spent), ..Scope::root(inputs, rows, &self.cancellation) }
    }

    /// For the body of a lambda: a row for each element, and the row of this scope it comes from.
    pub fn lambda(&'a self, indices: &'a UInt32Array, params: Vec<(usize, Column)>) -> Self {
        let inner = Some(Inner { outer: self, indices, params });
        Self { inner, ..self.over(&[], indices.len()) }
    }

    fn some(&'a self, indices: &'a UInt32Array) -> Self {
        self.lambda(indices, Vec::new())
    }

    pub fn eval(&self, node: &Node) -> Result<Column> {
        let column = self.eval_node(node).map_err(|error| error.at(node.span))?;
        if !matches!(node.kind, NodeKind::Constant(_) | NodeKind::Input(..) | NodeKind::Param(_)) {
            let bytes = bytes_of(&column.array)?;
            meter::hold(bytes)?;
            let spent = self.spent.get().saturating_add(bytes);
            self.spent.set(spent);
            if spent > RUN_BYTES_MAX {
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
        if let Some(coded) = self.coded(node) {
            let eval = |input: &ArrayRef| {
                let entries = self.entries(node, input);
                let scope = self.over(&entries, input.len());
                scope.eval(node)?.expand(input.len())
            };
            let wanted = wide_type(&node.ty.kind);
            if let Some(array) = node.memo.by_entry(&coded, &wanted, eval)? {
                return Ok(Column::full(array));
            }
        }
        match &node.kind {
            NodeKind::Constant(array) => Ok(Column::constant(Arc::clone(array))),
            NodeKind::Input(input, read) => self.input(*input, read, &node.ty),
            NodeKind::Param(param) => {
                Err(Error::invalid(format!("no parameter {param}"), node.span))
            }
            NodeKind::Call(args, Run { run, strict }) => {
                let columns = self.eval_all(args)?;
                if self.rows == 0 {
                    return nothing(&node.ty, 0).map(Column::full);
                }
                let constant = columns.iter().all(|column| column.constant);
                let rows = if constant { 1 } else { self.rows };
                let parts = self.in_parts(&columns, rows, *strict, &**run)?;
                let array = joined(parts)?;
                debug_assert_eq!(array.len(), rows, "{node:?}");
                Ok(Column { array, constant })
            }
            NodeKind::Test(..) | NodeKind::All(_) | NodeKind::Any(_) | NodeKind::Not(_) => {
                let truth = self.truth(node)?;
                Ok(Column::full(truth_to_ints(&truth)))
            }
            NodeKind::Choose(branches, otherwise) => self.choose(branches, otherwise),
            NodeKind::Higher { run, lambda, arrays } => {
                let lambda = lambda.as_ref().map(|(params, body)| (&params[..], &**body));
                run.apply(self, lambda, arrays, &node.ty, node.span)
            }
        }
    }

    pub fn eval_all(&self, nodes: &[Node]) -> Result<Vec<Column>> {
        nodes.iter().map(|node| self.eval(node)).collect()
    }

    /// As a condition; of as many rows as the scope.
    pub fn truth(&self, node: &Node) -> Result<BooleanArray> {
        if let Some(coded) = self.coded(node) {
            let eval = |input: &ArrayRef| -> Result<ArrayRef> {
                let entries = self.entries(node, input);
                Ok(Arc::new(self.over(&entries, input.len()).truth(node)?))
            };
            if let Some(array) = node.memo.by_entry(&coded, &DataType::Boolean, eval)? {
                return Ok(array.as_boolean().clone());
            }
        }
        let evaluated_here = self.inner.as_ref().is_none_or(|inner| inner.owns(node));
        match &node.kind {
            NodeKind::Test(args, Run { run, strict }) if evaluated_here => {
                let columns = self.eval_all(args)?;
                let parts = self.in_parts(&columns, self.rows, *strict, &|args: &Args| {
                    Ok(Arc::new(run(args)?) as ArrayRef)
                })?;
                Ok(joined(parts)?.as_boolean().clone())
            }
            NodeKind::All(parts) if evaluated_here => self.all(parts, true),
            NodeKind::Any(parts) if evaluated_here => self.all(parts, false),
            NodeKind::Not(part) if evaluated_here => {
                let truth = self.truth(part)?;
                Ok(BooleanArray::new(!truth.values(), truth.nulls().cloned()))
            }
            _ => Ok(is_true(&self.eval(node)?.expand(self.rows)?)),
        }
    }

    /// `AND`, or `OR` as the `AND` of opposites. Three-valued: a null decides nothing.
    fn all(&self, parts: &[Node], and: bool) -> Result<BooleanArray> {
        let mut decided = BooleanBuffer::new_unset(self.rows);
        let mut unknown = BooleanBuffer::new_unset(self.rows);
        for part in parts {
            let truth = if part.fails {
                let open = UInt32Array::from_iter_values((!&decided).set_indices_u32());
                let truth = self.some(&open).truth(part)?;
                spread(&truth, &open, self.rows)
            } else {
                self.truth(part)?
            };
            let valid = truth.nulls().map(NullBuffer::inner);
            let decides = if and { !truth.values() } else { truth.values().clone() };
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

    fn choose(&self, branches: &[(Node, Node)], otherwise: &Node) -> Result<Column> {
        // Which of the values is each row's.
        let mut chosen = vec![branches.len(); self.rows];
        let mut open = BooleanBuffer::new_set(self.rows);
        for (no, (when, _)) in branches.iter().enumerate() {
            let truth = if when.fails {
                let rows = UInt32Array::from_iter_values(open.set_indices_u32());
                spread(&self.some(&rows).truth(when)?, &rows, self.rows)
            } else {
                self.truth(when)?
            };
            let holds = match truth.nulls() {
                Some(nulls) => truth.values() & nulls.inner(),
                None => truth.values().clone(),
            };
            let now = &holds & &open;
            now.set_indices().for_each(|row| chosen[row] = no);
            open = &open & &!&holds;
        }
        let values = branches.iter().map(|(_, then)| then).chain([otherwise]);
        let mut arrays: Vec<ArrayRef> = Vec::new();
        let mut places = vec![(0, 0); self.rows];
        for (no, value) in values.enumerate() {
            let mine = |row: &usize| chosen[*row] == no;
            if value.fails {
                let rows: Vec<u32> = (0..self.rows).filter(mine).map(|row| row as u32).collect();
                rows.iter().enumerate().for_each(|(at, row)| places[*row as usize] = (no, at));
                let rows = UInt32Array::from(rows);
                let scope = self.some(&rows);
                arrays.push(scope.eval(value)?.expand(rows.len())?);
            } else {
                let column = self.eval(value)?;
                for row in (0..self.rows).filter(mine) {
                    places[row] = (no, if column.constant { 0 } else { row });
                }
                arrays.push(column.array);
            }
        }
        Ok(Column::full(interleave(&arrays, &places)?))
    }

    /// What does not depend on this scope is worked out around it, for fewer rows or for all
    /// entries of a dictionary.
    fn outer_value(&self, node: &Node) -> Result<Option<Column>> {
        let Some(inner) = &self.inner else { return Ok(None) };
        if let NodeKind::Param(param) = node.kind
            && let Some((_, column)) = inner.params.iter().find(|(own, _)| *own == param)
        {
            return Ok(Some(column.clone()));
        }
        if inner.owns(node) {
            return Ok(None);
        }
        inner.outer.eval(node)?.take(inner.indices).map(Some)
    }

    /// The only input of a node, if it is dictionary-coded. What may fail is not asked about
    /// entries that no row has.
    fn coded(&self, node: &Node) -> Option<Arc<Coded>> {
        let [input] = node.inputs[..] else { return None };
        if self.inner.is_some() || node.fails || !node.params.is_empty() {
            return None;
        }
        if matches!(node.kind, NodeKind::Input(..)) {
            return None;
        }
        self.dictionary(input)
    }

    fn dictionary(&self, input: usize) -> Option<Arc<Coded>> {
        if let Some(Some(coded)) = self.coded.borrow().get(input) {
            return Some(Arc::clone(coded));
        }
        let coded = Arc::new(Coded::of(self.inputs.get(input)?)?);
        if let Some(place) = self.coded.borrow_mut().get_mut(input) {
            *place = Some(Arc::clone(&coded));
        }
        Some(coded)
    }

    /// The inputs of a node that has one only.
    fn entries(&self, node: &Node, entries: &ArrayRef) -> Vec<ArrayRef> {
        let mut inputs = self.inputs.to_vec();
        if let [input] = node.inputs[..] {
            inputs[input] = Arc::clone(entries);
        }
        inputs
    }

    fn input(&self, input: usize, read: &Read, ty: &Type) -> Result<Column> {
        if let Some(Some(column)) = self.wide.borrow().get(input) {
            return Ok(column.clone());
        }
        let Some(array) = self.inputs.get(input) else {
            let expected = format!("input {input}");
            return Err(Error::InputType { expected, found: "nothing".to_owned() });
        };
        let read = |array: &ArrayRef| -> Result<ArrayRef> {
            let is_text = matches!(
                array.data_type(),
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            );
            match read {
                Some(read) if is_text => {
                    let texts = widen(array, &hogql::types::Kind::String.into())?;
                    let columns = [Column::full(texts)];
                    let nulls = Args::any_null(&columns, array.len());
                    read(&Args { columns: &columns, rows: array.len(), nulls })
                }
                _ => widen(array, ty),
            }
        };
        let wide = match self.dictionary(input) {
            Some(coded) => coded.rows(read)?,
            None => read(array)?,
        };
        let column = Column::full(wide);
        if let Some(place) = self.wide.borrow_mut().get_mut(input) {
            *place = Some(column.clone());
        }
        Ok(column)
    }
}

impl Inner<'_> {
    /// Whether a node can only run here: it reads the lambda's parameters, or it may fail for
    /// other rows.
    fn owns(&self, node: &Node) -> bool {
        if self.params.is_empty() {
            let leaf = matches!(node.kind, NodeKind::Input(..) | NodeKind::Param(_));
            return node.fails && !leaf;
        }
        self.params.iter().any(|(param, _)| node.params.contains(param))
    }
}

/// Of the values alone, whatever they are a part of.
pub(crate) fn bytes_of(array: &ArrayRef) -> Result<usize> {
    Ok(array.to_data().get_slice_memory_size()?)
}

/// Answers about some rows as answers about all; what was not asked does not hold.
fn spread(truth: &BooleanArray, rows: &UInt32Array, all: usize) -> BooleanArray {
    let mut values = vec![false; all];
    let mut valid = vec![true; all];
    for (at, row) in rows.values().iter().enumerate() {
        values[*row as usize] = truth.value(at);
        valid[*row as usize] = truth.is_valid(at);
    }
    let nulls = Some(NullBuffer::from(valid)).filter(|nulls| nulls.null_count() > 0);
    BooleanArray::new(BooleanBuffer::from(values), nulls)
}
