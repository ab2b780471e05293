//! Parses sizes, which the program contains in SymPy's notation, such as `2*s0 + 1` or `FloorDiv(s0, 2)`.

use importer::known;
use importer::tensor::Res;
use plugin_api::arith::apply;
use plugin_api::prelude::*;
use plugin_api::scalar::PrimOp;

/// Maximum nesting of an expression.
const DEEPEST: usize = 64;
/// Maximum length of an expression's text, and maximum size of a power or function that repeats an expression.
const LONGEST: usize = 2000;

/// An expression of symbols.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    Int(i64),
    Symbol(String),
    Binary(Op, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    Add,
    Sub,
    Mul,
    FloorDiv,
    Mod,
    Min,
    Max,
}

impl Expr {
    /// Parses an expression.
    pub(crate) fn parse(text: &str) -> Res<Expr> {
        let mut parser = Parser { rest: text.trim(), depth: 0 };
        let parsed = if text.len() <= LONGEST { parser.sum().ok() } else { None };
        let parsed = parsed.filter(|_| parser.rest.is_empty());
        parsed.ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            format!("the size `{shown}` is not an expression of the supported form: +, -, *, //, %, **, Min, Max")
        })
    }

    /// Returns the number of nodes.
    fn len(&self) -> usize {
        if let Expr::Binary(_, a, b) = self { 1 + a.len() + b.len() } else { 1 }
    }

    /// Calls a function with each symbol.
    pub(crate) fn symbols<'e>(&'e self, f: &mut dyn FnMut(&'e str)) {
        match self {
            Expr::Int(_) => {}
            Expr::Symbol(name) => f(name),
            Expr::Binary(_, a, b) => {
                a.symbols(f);
                b.symbols(f);
            }
        }
    }

    /// Returns the expression as a dimension, where `of` returns the dimension of a symbol.
    pub(crate) fn dim(&self, of: &mut dyn FnMut(&str) -> Res<Dim>) -> Res<Dim> {
        Ok(match self {
            Expr::Int(value) => Dim::Int(*value),
            Expr::Symbol(name) => of(name)?,
            Expr::Binary(op, a, b) => {
                let (a, b) = (a.dim(of)?, b.dim(of)?);
                if matches!(op, Op::FloorDiv | Op::Mod) && b.as_int() == Some(0) {
                    return Err("a size is divided by 0".to_string());
                }
                match op {
                    Op::Add => known::add(&a, &b),
                    Op::Sub => known::sub(&a, &b),
                    Op::Mul => known::mul(&a, &b),
                    Op::FloorDiv => known::div(&a, &b),
                    Op::Mod => apply(PrimOp::FloorMod, &a, &b),
                    Op::Min => known::min(&a, &b),
                    Op::Max => known::max(&a, &b),
                }
            }
        })
    }

    /// Returns `(a, b)` if the expression is `a * symbol + b`.
    pub(crate) fn linear(&self) -> Option<(i64, i64)> {
        let at = |value: i64| self.dim(&mut |_| Ok(Dim::Int(value))).ok()?.as_int();
        let (b, one) = (at(0)?, at(1)?);
        let a = one.checked_sub(b)?;
        let fits = |x: i64| Some(at(x)? == a.checked_mul(x)?.checked_add(b)?);
        (a > 0 && [2, 3, 7, 1000, 1001].into_iter().all(|x| fits(x) == Some(true))).then_some((a, b))
    }
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

/// The expression cannot be parsed.
struct Invalid;

impl Parser<'_> {
    fn take(&mut self, token: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(token) else { return false };
        self.rest = rest.trim_start();
        true
    }

    fn sum(&mut self) -> Result<Expr, Invalid> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Invalid);
        }
        let mut left = self.product()?;
        loop {
            let op = match () {
                () if self.take("+") => Op::Add,
                () if self.take("-") => Op::Sub,
                () => break,
            };
            left = Expr::Binary(op, Box::new(left), Box::new(self.product()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn product(&mut self) -> Result<Expr, Invalid> {
        let mut left = self.signed()?;
        loop {
            let op = match () {
                () if self.rest.starts_with("**") => break,
                () if self.take("*") => Op::Mul,
                // SymPy writes the exact quotient of two integers with `/`.
                () if self.take("//") || self.take("/") => Op::FloorDiv,
                () if self.take("%") => Op::Mod,
                () => break,
            };
            left = Expr::Binary(op, Box::new(left), Box::new(self.signed()?));
        }
        Ok(left)
    }

    fn signed(&mut self) -> Result<Expr, Invalid> {
        if !self.take("-") {
            return self.power();
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Invalid);
        }
        let operand = self.signed()?;
        self.depth -= 1;
        Ok(Expr::Binary(Op::Mul, Box::new(Expr::Int(-1)), Box::new(operand)))
    }

    fn power(&mut self) -> Result<Expr, Invalid> {
        let base = self.primary()?;
        if !self.take("**") {
            return Ok(base);
        }
        let Expr::Int(exponent @ 0..=16) = self.primary()? else { return Err(Invalid) };
        if base.len() * 16 > LONGEST {
            return Err(Invalid);
        }
        Ok((0..exponent).fold(Expr::Int(1), |all, _| Expr::Binary(Op::Mul, Box::new(all), Box::new(base.clone()))))
    }

    fn primary(&mut self) -> Result<Expr, Invalid> {
        if self.take("(") {
            let inner = self.sum()?;
            return if self.take(")") { Ok(inner) } else { Err(Invalid) };
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return Err(Invalid);
        }
        self.rest = rest.trim_start();
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().map(Expr::Int).map_err(|_| Invalid);
        }
        if !self.take("(") {
            return Ok(Expr::Symbol(word.to_string()));
        }
        let mut args = vec![self.sum()?];
        while self.take(",") {
            args.push(self.sum()?);
        }
        if !self.take(")") {
            return Err(Invalid);
        }
        function(word, args)
    }
}

/// Returns a function of SymPy or PyTorch as an expression.
fn function(name: &str, args: Vec<Expr>) -> Result<Expr, Invalid> {
    let op = match (name, args.len()) {
        ("FloorDiv" | "CleanDiv" | "IntTrueDiv" | "PythonFloorDiv", 2) => Op::FloorDiv,
        ("Mod" | "PythonMod", 2) => Op::Mod,
        ("Max", 1..) => Op::Max,
        ("Min", 1..) => Op::Min,
        ("CeilDiv", 2) if args[1].len() * 16 <= LONGEST => return Ok(ceil_div(args)),
        ("Identity" | "floor", 1) => {
            return args.into_iter().next().ok_or(Invalid);
        }
        _ => return Err(Invalid),
    };
    let mut args = args.into_iter();
    let first = args.next().ok_or(Invalid)?;
    Ok(args.fold(first, |all, next| Expr::Binary(op, Box::new(all), Box::new(next))))
}

/// Returns the quotient rounded up.
fn ceil_div(args: Vec<Expr>) -> Expr {
    let [a, b] = <[Expr; 2]>::try_from(args).unwrap_or([Expr::Int(0), Expr::Int(1)]);
    let less = Expr::Binary(Op::Sub, Box::new(b.clone()), Box::new(Expr::Int(1)));
    Expr::Binary(Op::FloorDiv, Box::new(Expr::Binary(Op::Add, Box::new(a), Box::new(less))), Box::new(b))
}
