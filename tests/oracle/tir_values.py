"""Executes PrimFuncs statement by statement, to detect modules that a TVM pass breaks.

Loops of all kinds run sequentially, which is valid for each kind. Programs with undefined behavior raise a fault: an
undefined variable, an uninitialized element, an index out of bounds, a division by zero, or a jump outside of a loop.
"""

import itertools
import math
import operator
import random

import tvm
from tvm import tirx

# No terminating module in the goldens executes this many statements.
MOST_STATEMENTS = 5000


class Fault(Exception):
    """The behavior of the program is undefined."""


class Jump(Exception):
    """A `break` or `continue`."""


def divided(a, b):
    if b == 0:
        raise Fault("a division by zero")
    return a // b if isinstance(a, int) else a / b


BINARY = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "FloorDiv": divided, "Div": divided,
    "FloorMod": lambda a, b: a - b * divided(a, b), "Min": min, "Max": max, "EQ": operator.eq, "NE": operator.ne,
    "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge,
}  # fmt: skip


def each(function, *values):
    """Applies a scalar function, for each lane if a value is a vector."""
    lanes = [len(value) for value in values if isinstance(value, list)]
    if not lanes:
        return function(*values)
    wide = [value if isinstance(value, list) else [value] * lanes[0] for value in values]
    return [function(*lane) for lane in zip(*wide)]


class Machine:
    """One run: the values of variables, the elements of buffers, and the calls made."""

    def __init__(self):
        self.variables, self.calls, self.left = {}, [], MOST_STATEMENTS

    def var(self, var):
        if var not in self.variables:
            raise Fault(f"nothing defines {var.name}")
        return self.variables[var]

    def alloc(self, buffer):
        self.variables[buffer] = [None] * max(math.prod(self.expr(extent) for extent in buffer.ty.shape), 0)

    def at(self, buffer, indices):
        """Returns the elements and the position in them."""
        elements, at = self.var(buffer), 0
        for index, extent in zip(indices, buffer.ty.shape):
            at = each(lambda a, b, n=self.expr(extent): a * n + b, at, self.expr(index))
        if not all(0 <= one < len(elements) for one in (at if isinstance(at, list) else [at])):
            raise Fault(f"no element {at} of {buffer.name}")
        return elements, at

    def load(self, buffer, indices, mask=True):
        elements, at = self.at(buffer, indices)
        value = each(lambda one, on: elements[one] if on else 0, at, mask)
        if value is None or isinstance(value, list) and None in value:
            raise Fault(f"nothing wrote {buffer.name}{at}")
        return value

    def store(self, buffer, indices, value, mask=True):
        elements, at = self.at(buffer, indices)
        for one, lane, on in zip(*(x if isinstance(x, list) else itertools.repeat(x) for x in (at if isinstance(at, list) else [at], value, mask))):
            if on:
                elements[one] = lane

    def call(self, call):
        name = call.op.name.rpartition(".")[2]
        if name in ("break_loop", "continue_loop"):
            raise Jump(name)
        if name == "likely":
            return self.expr(call.args[0])
        if name == "if_then_else":
            return self.expr(call.args[1] if self.expr(call.args[0]) else call.args[2])
        if name == "masked_store":
            buffer, value, index, mask = call.args
            return self.store(buffer, [index], self.expr(value), self.expr(mask))
        values = [self.expr(arg) if not isinstance(arg, tvm.ir.StringImm) else arg.value for arg in call.args]
        if name == "get_active_lane_mask":
            return [values[0] + lane < values[1] for lane in range(tvm.DataType(str(call.ty.dtype)).lanes)]
        if name == "call_pure_extern":
            return sum(value for value in values if not isinstance(value, str)) * 3 + 1
        if name == "call_extern":
            self.calls.append(tuple(values))
            return len(self.calls)
        raise NotImplementedError(name)

    def expr(self, expr):
        kind = type(expr).__name__
        if isinstance(expr, tvm.ir.Var):
            return self.var(expr)
        if kind in ("IntImm", "FloatImm"):
            return expr.value
        if kind in BINARY:
            return each(BINARY[kind], self.expr(expr.a), self.expr(expr.b))
        if kind in ("And", "Or"):
            return self.expr(expr.b) if bool(self.expr(expr.a)) == (kind == "And") else kind == "Or"
        if kind == "Select":
            cond, then, otherwise = self.expr(expr.condition), self.expr(expr.true_value), self.expr(expr.false_value)
            return each(lambda on, a, b: a if on else b, cond, then, otherwise)
        if kind == "Not":
            return not self.expr(expr.a)
        if kind == "Cast":
            return each(float if "float" in str(expr.ty.dtype) else int, self.expr(expr.value))
        if kind in ("BufferLoad", "TensorLoad"):
            return self.load(expr.source, expr.indices)
        if kind == "Ramp":
            return [self.expr(expr.base) + lane * self.expr(expr.stride) for lane in range(self.expr(expr.lanes))]
        if kind == "Broadcast":
            return [self.expr(expr.value)] * self.expr(expr.lanes)
        if kind == "Call":
            return self.call(expr)
        raise NotImplementedError(kind)

    def scope(self, stmt):
        """Runs a statement; its definitions are local to it."""
        outer, self.variables = self.variables, dict(self.variables)
        try:
            self.stmt(stmt)
        finally:
            self.variables = outer

    def loop(self, values, body):
        """Runs the body of a loop until a `break`; `values` runs before each iteration."""
        for _ in values:
            try:
                self.scope(body)
            except Jump as jump:
                if jump.args == ("break_loop",):
                    break

    def iterations(self, var, first, extent):
        for value in range(first, first + extent):
            self.variables[var] = value
            yield
        self.variables.pop(var, None)

    def block(self, realize):
        block, iters = realize.block, realize.block.iter_vars
        values = [self.expr(value) for value in realize.iter_values]
        if not self.expr(realize.predicate):
            return
        self.variables.update(zip((one.var for one in iters), values))
        for buffer in block.alloc_buffers:
            self.alloc(buffer)
        firsts = all(value == self.expr(one.dom.min) for one, value in zip(iters, values) if one.iter_type == tirx.IterVar.CommReduce)
        if block.init is not None and firsts:
            self.scope(block.init)
        self.scope(block.body)
        for one in iters:
            self.variables.pop(one.var)

    def stmt(self, stmt):
        self.left -= 1
        if self.left < 0:
            raise NotImplementedError("a program that does not terminate")
        kind = type(stmt).__name__
        if kind == "SeqStmt":
            for one in stmt.seq:
                self.stmt(one)
        elif kind == "Bind":
            self.variables[stmt.var] = self.expr(stmt.value)
        elif kind == "AllocBuffer":
            self.alloc(stmt.buffer)
        elif kind == "DeclBuffer":
            self.variables[stmt.buffer] = self.var(stmt.data.args[0])
        elif kind == "BufferStore":
            self.store(stmt.buffer, stmt.indices, self.expr(stmt.value))
        elif kind == "Evaluate":
            self.expr(stmt.value)
        elif kind == "IfThenElse":
            branch = stmt.then_case if self.expr(stmt.condition) else stmt.else_case
            if branch is not None:
                self.scope(branch)
        elif kind == "For":
            self.loop(self.iterations(stmt.loop_var, self.expr(stmt.min), self.expr(stmt.extent)), stmt.body)
        elif kind == "While":
            self.loop(iter(lambda: bool(self.expr(stmt.condition)), False), stmt.body)
        elif kind == "AttrStmt" and stmt.attr_key == "thread_extent":
            self.loop(self.iterations(stmt.node.var, 0, self.expr(stmt.value)), stmt.body)
        elif kind == "AttrStmt":
            self.stmt(stmt.body)
        elif kind == "SBlockRealize":
            self.block(stmt)
        else:
            raise NotImplementedError(kind)


def executed(func, seed):
    """Returns the parameters after a run on random values, and the calls, or returns the fault."""
    machine = Machine()
    # Scalars first, because shapes of buffers use them.
    for at, param in sorted(enumerate(func.params), key=lambda numbered: not isinstance(numbered[1].ty, tvm.ir.PrimType)):
        # The values for a parameter depend only on the seed, not on the other parameters.
        values = random.Random(f"{seed} {at}")
        if isinstance(param.ty, tvm.ir.PrimType):
            machine.variables[param] = values.randint(-1, 6)
            continue
        machine.alloc(param)
        number = float if "float" in str(param.ty.dtype) else int
        elements = machine.variables[param]
        elements[:] = (number(values.randint(-1, 2)) for _ in elements)
    try:
        machine.stmt(func.body)
    except (Fault, Jump) as fault:
        return str(fault), None
    return None, ([machine.variables[param] for param in func.params], machine.calls)


def first_difference(before, after, seeds=60):
    """Returns the first difference between the results of two modules, on inputs for which `before` has no fault; None
    if the results agree."""
    for name in (var.name_hint for var in before.get_global_vars()):
        for seed in range(seeds):
            fault, expected = executed(before[name], seed)
            if fault is None:
                fault, found = executed(after[name], seed)
                if fault is not None or found != expected:
                    return f"{name}, run {seed}: {fault or f'{found} instead of {expected}'}"
    return None
