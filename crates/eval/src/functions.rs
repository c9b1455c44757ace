//! Scalar functions, by family. A family compiles a call to a kernel.

mod addresses;
mod arithmetic;
mod arrays;
mod autocapture;
mod bits;
mod cityhash;
mod conditions;
mod conversions;
mod dates;
mod distances;
mod elements;
mod hashes;
mod json;
mod json_path;
mod languages;
mod math;
pub(crate) mod properties;
mod readable;
mod regexes;
mod rounding;
mod search;
mod strings;
mod traffic;
mod urls;
mod vectors;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray};
use hogql::Span;
use hogql::plan::Expr;
use hogql::types::{Kind, Type};

use crate::Context;
use crate::error::{Error, Result};
use crate::run::node::{Kernel, Node, Predicate, cast_node};
use crate::values::cast;
use crate::vector::column::Args;

/// A call that is being compiled. A family may replace the arguments, for example by casts.
pub(crate) struct CallSite<'a> {
    pub name: &'static str,
    pub args: Vec<Node>,
    pub exprs: &'a [Expr],
    pub ty: &'a Type,
    pub span: Span,
    pub context: &'a Arc<Context>,
    /// Compiles an expression that reads no input. A function pointer, so that families do not
    /// depend on the compiler, which depends on them.
    pub compile_constant: fn(&Expr, &Arc<Context>) -> Result<Node>,
}

impl CallSite<'_> {
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

    /// The argument if it is a constant string.
    pub fn string(&self, no: usize) -> Option<String> {
        let array = self.args.get(no)?.as_constant().filter(|array| array.is_valid(0))?;
        array.as_string_opt::<i32>().map(|strings| strings.value(0).to_owned())
    }

    /// The argument if it is a constant integer.
    pub fn int(&self, no: usize) -> Option<i64> {
        let array = self.args.get(no)?.as_constant().filter(|array| array.is_valid(0))?;
        array.as_primitive_opt::<Int64Type>().map(|ints| ints.value(0))
    }

    pub fn invalid(&self, message: impl Into<String>) -> Error {
        Error::invalid(message, self.span)
    }

    /// Compiles the call to a cast of its first argument to the call's type.
    pub fn as_cast(&mut self, from: Type, or_null: bool) -> Result<CompiledCall> {
        self.args.truncate(1);
        let to = self.ty;
        let fallible = !or_null && cast::may_fail(&from.kind, &to.kind);
        let cast = cast::between(&from, to, or_null, self.span, self.context)?;
        let mut compiled = call(move |args| match &cast {
            Some(cast) => cast(&args.columns[0].array),
            None => Ok(Arc::clone(&args.columns[0].array)),
        });
        compiled.fallible = fallible;
        Ok(compiled)
    }

    fn element(&self) -> Type {
        self.ty.element().cloned().unwrap_or_else(|| Kind::Null.into())
    }
}

pub(crate) struct CompiledCall {
    pub kind: KernelKind,
    /// Whether it fails for some values.
    pub fallible: bool,
}

pub(crate) enum KernelKind {
    Values(Kernel),
    Predicate(Predicate),
}

impl CompiledCall {
    fn fallible(self) -> Self {
        self.fallible_if(true)
    }

    fn fallible_if(self, fallible: bool) -> Self {
        Self { fallible, ..self }
    }
}

fn call(kernel: impl Fn(&Args) -> Result<ArrayRef> + Send + Sync + 'static) -> CompiledCall {
    CompiledCall { kind: KernelKind::Values(Arc::new(kernel)), fallible: false }
}

fn predicate(
    kernel: impl Fn(&Args) -> Result<BooleanArray> + Send + Sync + 'static,
) -> CompiledCall {
    CompiledCall { kind: KernelKind::Predicate(Arc::new(kernel)), fallible: false }
}

/// Compiles a call; None if the function belongs to another family.
type Family = fn(&mut CallSite) -> Result<Option<CompiledCall>>;

/// Compiles a call with the first family that knows its function.
pub(crate) fn build(site: &mut CallSite) -> Result<CompiledCall> {
    const FAMILIES: &[Family] = &[
        conditions::build,
        conversions::build,
        hashes::build,
        arithmetic::build,
        math::build,
        bits::build,
        strings::build,
        search::build,
        autocapture::build,
        languages::build,
        distances::build,
        regexes::build,
        dates::build,
        json::build,
        json_path::build,
        arrays::build,
        elements::build,
        vectors::build,
        readable::build,
        urls::build,
        addresses::build,
        traffic::build,
    ];
    for family in FAMILIES {
        if let Some(compiled) = family(site)? {
            return Ok(compiled);
        }
    }
    Err(site.invalid(format!("{} cannot be evaluated", site.name)))
}
