"""Names of attributes that values of data types have.

Tests that use only these attributes of a result treat it as data.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final

_TYPES: Final = (
    *(int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range, slice),
    *(Counter, OrderedDict, defaultdict, deque, date, datetime, time, timedelta, Decimal, Fraction),
)
_ARRAYS: Final = frozenset(
    {"all", "any", "sum", "mean", "median", "min", "max", "std", "var", "prod", "item", "tolist"}
    | {"shape", "size", "ndim", "dtype", "flatten", "ravel", "round", "astype", "equals", "norm"}
    | {"abs", "dot", "T", "iloc", "loc", "empty", "nonzero", "argmax", "argmin", "total"}
)
DATA_NAMES: Final = frozenset(
    {name for kind in _TYPES for name in dir(kind) if not name.startswith("_")} | _ARRAYS
)
