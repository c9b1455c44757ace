//! Every scalar function, by family. A family turns a call into what runs for each batch.

mod arithmetic;
mod arrays;
mod cityhash;
mod conditions;
mod conversions;
mod dates;
mod elements;
mod hashes;
mod json;
pub(crate) mod lambdas;
pub(crate) mod literals;
pub(crate) mod properties;
mod regexes;
mod rounding;
mod strings;
mod urls;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray};
use hogql::Span;
use hogql::plan::Expr;
use hogql::types::{Kind, Type};

use crate::Context;
use crate::cast;
use crate::column::Args;
use crate::compile::cast_node;
use crate::error::{Error, Result};
use crate::node::{Call, Node, Test};

/// A call that is being compiled. Families may change the arguments before they are run.
pub(crate) struct Site<'a> {
    pub name: &'static str,
    pub args: Vec<Node>,
    pub exprs: &'a [Expr],
    pub ty: &'a Type,
    pub span: Span,
    pub context: &'a Arc<Context>,
}

impl Site<'_> {
    pub fn kind(&self, no: usize) -> &Kind {
        &self.args[no].ty.kind
    }

    pub fn cast(&mut self, no: usize, kind: &Kind) -> Result<()> {
        let node = self.args[no].clone();
        self.args[no] = cast_node(node, kind, self.context)?;
        Ok(())
    }

    pub fn cast_all(&mut self, kind: &Kind) -> Result<()> {
        (0..self.args.len()).try_for_each(|no| self.cast(no, kind))
    }

    pub fn text(&self, no: usize) -> Option<String> {
        let array = self.args.get(no)?.as_constant().filter(|array| array.is_valid(0))?;
        array.as_string_opt::<i32>().map(|texts| texts.value(0).to_owned())
    }

    pub fn int(&self, no: usize) -> Option<i64> {
        let array = self.args.get(no)?.as_constant().filter(|array| array.is_valid(0))?;
        array.as_primitive_opt::<Int64Type>().map(|ints| ints.value(0))
    }

    pub fn invalid(&self, message: impl Into<String>) -> Error {
        Error::invalid(message, self.span)
    }

    /// The first argument alone, cast to the call's type.
    pub fn as_cast(&mut self, from: Type, or_null: bool) -> Result<Built> {
        self.args.truncate(1);
        let to = self.ty;
        let fails = !or_null && cast::may_fail(&from.kind, &to.kind);
        let cast = cast::between(&from, to, or_null, self.span, self.context)?;
        let mut built = call(move |args| match &cast {
            Some(cast) => cast(&args.columns[0].array),
            None => Ok(Arc::clone(&args.columns[0].array)),
        });
        built.fails = fails;
        Ok(built)
    }

    fn element(&self) -> Type {
        self.ty.element().cloned().unwrap_or_else(|| Kind::Null.into())
    }
}

pub(crate) struct Built {
    pub kind: BuiltKind,
    /// Whether it may refuse some values.
    pub fails: bool,
}

pub(crate) enum BuiltKind {
    Call(Call),
    Test(Test),
}

impl Built {
    fn fails(self) -> Self {
        self.fails_if(true)
    }

    fn fails_if(self, fails: bool) -> Self {
        Self { fails, ..self }
    }
}

fn call(run: impl Fn(&Args) -> Result<ArrayRef> + Send + Sync + 'static) -> Built {
    Built { kind: BuiltKind::Call(Arc::new(run)), fails: false }
}

fn test(run: impl Fn(&Args) -> Result<BooleanArray> + Send + Sync + 'static) -> Built {
    Built { kind: BuiltKind::Test(Arc::new(run)), fails: false }
}

/// None if the function is of another family.
type Family = fn(&mut Site) -> Result<Option<Built>>;

/// What a call runs.
pub(crate) fn build(site: &mut Site) -> Result<Built> {
    const FAMILIES: &[Family] = &[
        conditions::build,
        conversions::build,
        hashes::build,
        arithmetic::build,
        strings::build,
        regexes::build,
        dates::build,
        json::build,
        arrays::build,
        elements::build,
        urls::build,
    ];
    for family in FAMILIES {
        if let Some(built) = family(site)? {
            return Ok(built);
        }
    }
    Err(site.invalid(format!("{} cannot be evaluated", site.name)))
}
