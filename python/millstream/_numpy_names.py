"""The names of numpy's functions that tensors without values understand, and the operations for them. Refuses to know tensors."""

from __future__ import annotations

__all__ = ["FUNCTIONS", "NO_ARRAY", "UFUNCS"]

#: Refuses the other functions.
NO_ARRAY = "a tensor in a function of a dataset has no value yet, so numpy cannot use it: use its operators and methods, or millstream.ops"

#: The operation for each ufunc of numpy, by name.
UFUNCS = {
    "absolute": "abs",
    "add": "add",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "ceil": "ceil",
    "divide": "div",
    "equal": "eq",
    "exp": "exp",
    "floor": "floor",
    "floor_divide": "floor_div",
    "greater": "gt",
    "greater_equal": "ge",
    "invert": "not",
    "isfinite": "is_finite",
    "isnan": "is_nan",
    "less": "lt",
    "less_equal": "le",
    "log": "log",
    "logical_and": "and",
    "logical_not": "not",
    "logical_or": "or",
    "maximum": "maximum",
    "minimum": "minimum",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "power": "pow",
    "remainder": "mod",
    "rint": "round",
    "sign": "sign",
    "sqrt": "sqrt",
    "subtract": "sub",
    "tanh": "tanh",
}

#: The function of `ops` for each other function of numpy, by name.
FUNCTIONS = {
    "all": "reduce_all",
    "amax": "reduce_max",
    "amin": "reduce_min",
    "any": "reduce_any",
    "concatenate": "concat",
    "expand_dims": "expand_dims",
    "max": "reduce_max",
    "mean": "reduce_mean",
    "min": "reduce_min",
    "reshape": "reshape",
    "squeeze": "squeeze",
    "stack": "stack",
    "sum": "reduce_sum",
    "transpose": "transpose",
    "where": "where",
}
