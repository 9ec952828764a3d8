"""Right programs in the shapes of Python's protocols, and tests that use them as Python lets them.

For the referee's tests and for the fuzzer. Every program passes each of its tests.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple


class Shape(NamedTuple):
    """A program and tests that it passes."""

    name: str
    program: str
    tests: tuple[str, ...]


_PROTOCOLS: Final = (
    Shape(
        "async for gen",
        """\
async def gen(n):
    for i in range(n):
        yield i
""",
        (
            """\
import asyncio
async def main():
    out=[]
    async for x in gen(3):
        out.append(x)
    return out
assert asyncio.run(main())==[0,1,2]
""",
        ),
    ),
    Shape(
        "async comp",
        """\
async def gen(n):
    for i in range(n):
        yield i
""",
        (
            """\
import asyncio
async def main():
    return [x async for x in gen(3)]
assert asyncio.run(main())==[0,1,2]
""",
        ),
    ),
    Shape(
        "aiter class",
        """\
class A:
    def __init__(s,n): s.n=n
    def __aiter__(s): s.i=0; return s
    async def __anext__(s):
        if s.i>=s.n: raise StopAsyncIteration
        s.i+=1; return s.i
""",
        (
            """\
import asyncio
async def main():
    return [x async for x in A(3)]
assert asyncio.run(main())==[1,2,3]
""",
        ),
    ),
    Shape(
        "async def gather",
        """\
import asyncio
async def f(x):
    await asyncio.sleep(0.01)
    return x*2
""",
        (
            """\
import asyncio
async def main():
    return await asyncio.gather(f(1),f(2))
assert asyncio.run(main())==[2,4]
""",
        ),
    ),
    Shape(
        "async run direct",
        "async def f(x): return x+1",
        (
            """\
import asyncio
assert asyncio.run(f(1))==2
""",
        ),
    ),
    Shape(
        "anext builtin",
        """\
async def gen():
    yield 1
    yield 2
""",
        (
            """\
import asyncio
async def main():
    g=gen()
    a=await anext(g)
    b=await anext(g)
    c=await anext(g, None)
    return a,b,c
assert asyncio.run(main())==(1,2,None)
""",
        ),
    ),
    Shape(
        "agen asend/aclose",
        """\
async def gen():
    x=yield 1
    yield x*2
""",
        (
            """\
import asyncio
async def main():
    g=gen()
    a=await g.__anext__()
    b=await g.asend(5)
    await g.aclose()
    return a,b
assert asyncio.run(main())==(1,10)
""",
        ),
    ),
    Shape(
        "cm sync",
        """\
class C:
    def __init__(s): s.log=[]
    def __enter__(s): s.log.append('in'); return s
    def __exit__(s,t,v,tb): s.log.append('out' if t is None else t.__name__); return t is ValueError
""",
        (
            """\
c=C()
with c as d:
    pass
assert c.log==['in','out']
assert d is c
""",
            """\
c=C()
with c:
    raise ValueError('x')
assert c.log==['in','ValueError']
""",
            """\
c=C()
try:
    with c:
        raise KeyError('x')
except KeyError:
    ok=True
assert ok and c.log==['in','KeyError']
""",
        ),
    ),
    Shape(
        "contextmanager",
        """\
from contextlib import contextmanager
log=[]
@contextmanager
def cm(x):
    log.append('a')
    try:
        yield x
    finally:
        log.append('b')
""",
        (
            """\
with cm(3) as y:
    assert y==3
from solution import log
assert log==['a','b']
""",
        ),
    ),
    Shape(
        "contextmanager suppress",
        """\
from contextlib import contextmanager
@contextmanager
def ignoring(*e):
    try:
        yield
    except e:
        pass
""",
        (
            """\
with ignoring(ValueError):
    raise ValueError(1)
""",
            """\
try:
    with ignoring(ValueError):
        raise KeyError(1)
    assert False
except KeyError:
    pass
""",
        ),
    ),
    Shape(
        "async cm",
        """\
class C:
    def __init__(s): s.log=[]
    async def __aenter__(s): s.log.append('in'); return s
    async def __aexit__(s,t,v,tb): s.log.append('out'); return False
""",
        (
            """\
import asyncio
async def main():
    async with C() as c:
        pass
    return c.log
assert asyncio.run(main())==['in','out']
""",
        ),
    ),
    Shape(
        "asynccontextmanager",
        """\
from contextlib import asynccontextmanager
@asynccontextmanager
async def cm(x):
    yield x+1
""",
        (
            """\
import asyncio
async def main():
    async with cm(3) as y:
        return y
assert asyncio.run(main())==4
""",
        ),
    ),
    Shape(
        "cm cleanup on error",
        """\
class T:
    def __init__(s): s.rolled=False; s.done=False
    def __enter__(s): return s
    def __exit__(s,t,v,tb):
        if t: s.rolled=True
        else: s.done=True
        return False
""",
        (
            """\
t=T()
try:
    with t:
        1/0
except ZeroDivisionError:
    pass
assert t.rolled and not t.done
""",
        ),
    ),
    Shape(
        "iterator class",
        """\
class It:
    def __init__(s,n): s.n=n
    def __iter__(s): return iter(range(s.n))
""",
        (
            "assert list(It(3))==[0,1,2]",
            "assert sum(It(4))==6",
            """\
a,b=It(2)
assert (a,b)==(0,1)
""",
            "assert [*It(2)]==[0,1]",
            "assert 2 in It(3)",
            "assert 5 not in It(3)",
            "assert max(It(3))==2",
            "assert list(zip(It(2),It(2)))==[(0,0),(1,1)]",
            "assert list(map(str,It(2)))==['0','1']",
            "assert sorted(It(3),reverse=True)==[2,1,0]",
        ),
    ),
    Shape(
        "iterator next",
        """\
class It:
    def __init__(s): s.i=0
    def __iter__(s): return s
    def __next__(s):
        s.i+=1
        if s.i>3: raise StopIteration
        return s.i
""",
        (
            """\
it=It()
assert next(it)==1
assert list(it)==[2,3]
""",
            """\
it=iter(It())
assert next(it)==1
""",
            """\
it=It()
assert next(it,None)==1
""",
            """\
it=It()
list(it)
try:
    next(it)
    assert False
except StopIteration:
    pass
""",
        ),
    ),
    Shape(
        "generator send",
        """\
def acc():
    t=0
    while True:
        x=yield t
        if x is None: break
        t+=x
    return t
""",
        (
            """\
g=acc()
assert next(g)==0
assert g.send(3)==3
assert g.send(4)==7
""",
            """\
g=acc()
next(g)
g.send(5)
try:
    g.send(None)
    assert False
except StopIteration as e:
    assert e.value==5
""",
        ),
    ),
    Shape(
        "generator throw/close",
        """\
def g():
    try:
        yield 1
    except ValueError:
        yield 'caught'
""",
        (
            """\
x=g()
assert next(x)==1
assert x.throw(ValueError('a'))=='caught'
""",
            """\
x=g()
next(x)
x.close()
assert list(x)==[]
""",
            """\
x=g()
next(x)
assert x.throw(ValueError)=='caught'
""",
        ),
    ),
    Shape(
        "yield from",
        """\
def sub():
    r = yield 1
    return r
def main():
    r = yield from sub()
    yield ('got', r)
""",
        (
            """\
g=main()
next(g)
assert g.send(9)==('got',9)
""",
        ),
    ),
    Shape(
        "types generator",
        """\
def g():
    yield 1
""",
        (
            """\
import types
assert isinstance(g(), types.GeneratorType)
""",
            """\
import inspect
assert inspect.isgenerator(g())
""",
            """\
from collections.abc import Iterator, Iterable, Generator
assert isinstance(g(), Iterator) and isinstance(g(),Iterable) and isinstance(g(), Generator)
""",
            "assert iter(g()) is not None",
            "assert hasattr(g(),'__next__') and hasattr(g(),'__iter__')",
        ),
    ),
    Shape(
        "descriptor",
        """\
class Pos:
    def __set_name__(s,o,n): s.n='_'+n
    def __get__(s,i,o): return s if i is None else getattr(i,s.n)
    def __set__(s,i,v):
        if v<=0: raise ValueError('pos')
        setattr(i,s.n,v)
class A:
    x=Pos()
    def __init__(s,x): s.x=x
""",
        (
            """\
a=A(3)
assert a.x==3
a.x=5
assert a.x==5
try:
    a.x=-1
    assert False
except ValueError:
    pass
""",
        ),
    ),
    Shape(
        "property",
        """\
class T:
    def __init__(s,c): s._c=c
    @property
    def f(s): return s._c*9/5+32
    @f.setter
    def f(s,v): s._c=(v-32)*5/9
    @f.deleter
    def f(s): s._c=0
""",
        (
            """\
t=T(100)
assert t.f==212
t.f=32
assert t._c==0
""",
            """\
t=T(3)
del t.f
assert t._c==0
""",
        ),
    ),
    Shape(
        "delattr",
        "class O: pass",
        (
            """\
o=O()
o.a=1
assert o.a==1
del o.a
assert not hasattr(o,'a')
""",
        ),
    ),
    Shape(
        "classmethod",
        """\
class P:
    n=0
    def __init__(s,x): s.x=x; P.n+=1
    @classmethod
    def make(c,x): return c(x)
    @staticmethod
    def add(a,b): return a+b
""",
        (
            """\
p=P.make(3)
assert p.x==3 and P.n==1
assert P.add(1,2)==3 and p.add(3,4)==7
assert isinstance(p,P)
""",
            "assert type(P(1)).__name__=='P'",
            "assert P.__name__=='P'",
            "assert P(1).__class__.__name__=='P'",
        ),
    ),
    Shape(
        "callable obj",
        """\
class Adder:
    def __init__(s,n): s.n=n
    def __call__(s,x): return x+s.n
""",
        (
            """\
a=Adder(3)
assert a(4)==7
assert callable(a)
assert list(map(a,[1,2]))==[4,5]
assert sorted([3,1],key=a)==[1,3]
""",
            """\
assert Adder(1) is not None
a=Adder(2)
assert a.n==2
""",
        ),
    ),
    Shape(
        "callable eq",
        """\
class Adder:
    def __init__(s,n): s.n=n
    def __call__(s,x): return x+s.n
    def __eq__(s,o): return isinstance(o,Adder) and s.n==o.n
    def __hash__(s): return hash(s.n)
    def __len__(s): return s.n
    def __add__(s,o): return Adder(s.n+o.n)
""",
        (
            "assert Adder(1)==Adder(1)",
            "assert Adder(1)!=Adder(2)",
            "assert len(Adder(3))==3",
            "assert (Adder(1)+Adder(2)).n==3",
            "assert {Adder(1)}=={Adder(1)}",
        ),
    ),
    Shape(
        "dataclass",
        """\
from dataclasses import dataclass, field
@dataclass(order=True)
class P:
    x:int
    y:int=0
    t:list=field(default_factory=list)
""",
        (
            "assert P(1,2)==P(1,2)",
            "assert P(1)<P(2)",
            "assert P(1,2).y==2",
            "assert repr(P(1,2))=='P(x=1, y=2, t=[])'",
            "assert sorted([P(2),P(1)])[0].x==1",
            "assert max(P(1),P(3)).x==3",
        ),
    ),
    Shape(
        "frozen dataclass",
        """\
from dataclasses import dataclass
@dataclass(frozen=True)
class P:
    x:int
""",
        (
            """\
from dataclasses import FrozenInstanceError
try:
    P(1).x=2
    assert False
except FrozenInstanceError:
    pass
""",
            "assert len({P(1),P(1),P(2)})==2",
            "assert {P(1):'a'}[P(1)]=='a'",
        ),
    ),
    Shape(
        "enum",
        """\
from enum import Enum
class C(Enum):
    RED=1
    BLUE=2
""",
        (
            "assert C.RED.value==1 and C.RED.name=='RED'",
            "assert C(2) is C.BLUE",
            "assert C['RED'] is C.RED",
            "assert [c.name for c in C]==['RED','BLUE']",
            "assert C.RED!=C.BLUE and C.RED==C.RED",
            "assert len(C)==2",
            "assert isinstance(C.RED,C)",
        ),
    ),
    Shape(
        "intenum",
        """\
from enum import IntEnum
class P(IntEnum):
    LO=1
    HI=2
""",
        (
            "assert P.HI>P.LO",
            "assert P.HI==2",
            "assert P.HI+1==3",
        ),
    ),
    Shape(
        "namedtuple",
        """\
from collections import namedtuple
P=namedtuple('P','x y')
def f(): return P(1,2)
""",
        (
            "assert f()==(1,2)",
            "assert f().x==1",
            """\
a,b=f()
assert a==1
""",
            "assert f()._asdict()=={'x':1,'y':2}",
            "assert P(1,2)==f()",
            "assert isinstance(f(),tuple)",
        ),
    ),
    Shape(
        "exception value",
        """\
class MyErr(ValueError):
    def __init__(s,code,msg=''): super().__init__(msg); s.code=code
def f(x):
    if x<0: raise MyErr(42,'neg')
    return x
def g(): return MyErr(7,'seven')
""",
        (
            """\
try:
    f(-1)
    assert False
except MyErr as e:
    assert e.code==42 and str(e)=='neg'
""",
            """\
try:
    f(-1)
except ValueError as e:
    assert 'neg' in str(e)
""",
            """\
e=g()
assert e.code==7
""",
            "assert isinstance(g(),Exception)",
            "assert str(g())=='seven'",
            """\
try:
    raise g()
except MyErr as e:
    assert e.code==7
""",
            "assert issubclass(MyErr,ValueError)",
            "assert isinstance(g(), MyErr)",
            """\
import unittest
class T(unittest.TestCase):
    def test(self):
        with self.assertRaises(MyErr) as cm:
            f(-1)
        self.assertEqual(cm.exception.code,42)
        with self.assertRaisesRegex(ValueError,'neg'):
            f(-1)
""",
        ),
    ),
    Shape(
        "exc group",
        """\
def f():
    raise ExceptionGroup('g',[ValueError(1),TypeError(2)])
""",
        (
            """\
try:
    f()
except* ValueError as eg:
    assert len(eg.exceptions)==1
except* TypeError:
    pass
""",
        ),
    ),
    Shape(
        "returns exception list",
        "def f(): return [ValueError('a'), KeyError('b')]",
        (
            """\
r=f()
assert isinstance(r[0],ValueError) and str(r[0])=='a'
""",
            "assert type(f()[1]) is KeyError",
            "assert f()[0].args==('a',)",
        ),
    ),
    Shape(
        "operators left literal",
        """\
class V:
    def __init__(s,x): s.x=x
    def __add__(s,o): return V(s.x+(o.x if isinstance(o,V) else o))
    __radd__=__add__
    def __mul__(s,o): return V(s.x*(o.x if isinstance(o,V) else o))
    __rmul__=__mul__
    def __rsub__(s,o): return V(o-s.x)
    def __sub__(s,o): return V(s.x-(o.x if isinstance(o,V) else o))
    def __eq__(s,o): return isinstance(o,V) and s.x==o.x
    def __hash__(s): return hash(s.x)
    def __pow__(s,n): return V(s.x**n)
    def __neg__(s): return V(-s.x)
    def __truediv__(s,o): return V(s.x/o)
    def __iadd__(s,o): s.x+=o; return s
    def __lt__(s,o): return s.x<(o.x if isinstance(o,V) else o)
    def __invert__(s): return V(~s.x)
    def __lshift__(s,n): return V(s.x<<n)
    def __pos__(s): return V(+s.x)
    def __round__(s,n=0): return round(s.x,n)
    def __divmod__(s,o): return divmod(s.x,o)
    def __contains__(s,o): return o==s.x
    def __reversed__(s): return iter([s.x,0])
    def __repr__(s): return f'V({s.x})'
    def __complex__(s): return complex(s.x)
    def __bytes__(s): return b'v'
    def __floor__(s): return int(s.x)
    def __matmul__(s,o): return s.x*o.x
""",
        (
            "assert 2*V(3)==V(6)",
            "assert V(3)*2==V(6)",
            "assert (1+V(2)).x==3",
            "assert (V(2)+1).x==3",
            "assert (10-V(3)).x==7",
            "assert V(2)**3==V(8)",
            "assert -V(1)==V(-1)",
            "assert (V(6)/2).x==3",
            """\
v=V(1)
v+=4
assert v.x==5
""",
            "assert V(1)<V(2)",
            "assert sum([V(1),V(2)],V(0)).x==3",
            "assert sum([V(1),V(2)]).x==3",
            "assert (~V(1)).x==-2",
            "assert (V(1)<<3).x==8",
            "assert (+V(1)).x==1",
            "assert round(V(2.567),1)==2.6",
            "assert list(reversed(V(3)))==[3,0]",
            "assert str(V(1))=='V(1)' and f'{V(2)}'=='V(2)'",
            "assert complex(V(2))==2",
            "assert bytes(V(1))==b'v'",
            """\
import math
assert math.floor(V(2))==2
""",
            "assert V(2)@V(3)==6",
            "assert not V(1)==1",
        ),
    ),
    Shape(
        "vector list",
        """\
class Vec:
    def __init__(s,*a): s.a=list(a)
    def __mul__(s,k):
        if isinstance(k,Vec): return sum(x*y for x,y in zip(s.a,k.a))
        return Vec(*[x*k for x in s.a])
    __rmul__=__mul__
    def __eq__(s,o): return s.a==o.a
    def __getitem__(s,i): return s.a[i]
    def __len__(s): return len(s.a)
    def __abs__(s): return sum(x*x for x in s.a)**.5
    def __bool__(s): return any(s.a)
""",
        (
            "assert Vec(1,2)*3==Vec(3,6)",
            "assert 3*Vec(1,2)==Vec(3,6)",
            "assert Vec(1,2)*Vec(3,4)==11",
            "assert Vec(1,2)[0]==1 and Vec(1,2)[-1]==2",
            "assert len(Vec(1,2))==2",
            "assert abs(Vec(3,4))==5.0",
            "assert not Vec(0,0)",
            "assert list(Vec(1,2))==[1,2]",
            "assert Vec(1,2,3)[1:]==[2,3]",
            """\
x,y=Vec(1,2)
assert x==1 and y==2
""",
        ),
    ),
    Shape(
        "container",
        """\
class Stack:
    def __init__(s): s.d=[]
    def push(s,x): s.d.append(x)
    def pop(s):
        if not s.d: raise IndexError('empty')
        return s.d.pop()
    def __len__(s): return len(s.d)
    def __contains__(s,x): return x in s.d
    def __getitem__(s,i): return s.d[i]
    def __setitem__(s,i,v): s.d[i]=v
    def __delitem__(s,i): del s.d[i]
    def __iter__(s): return iter(s.d)
    def __missing__(s,k): return 0
""",
        (
            """\
s=Stack()
s.push(1)
s.push(2)
assert len(s)==2 and 1 in s and 3 not in s
assert s.pop()==2
s[0]=9
assert s[0]==9
del s[0]
assert len(s)==0
try:
    s.pop()
    assert False
except IndexError as e:
    assert str(e)=='empty'
""",
            """\
s=Stack()
assert s.d==[]
s.push(4)
assert s.d==[4]
""",
            """\
s=Stack()
assert not s
assert bool(s) is False
""",
        ),
    ),
    Shape(
        "dictsub",
        """\
class LRU(dict):
    def __init__(s,c): super().__init__(); s.c=c
    def put(s,k,v): s[k]=v
    def __missing__(s,k): return -1
""",
        (
            """\
l=LRU(2)
l.put(1,2)
assert l[1]==2
assert l[5]==-1
assert l.c==2
""",
        ),
    ),
    Shape(
        "strsub",
        """\
class S(str):
    def shout(s): return s.upper()+'!'
""",
        (
            "assert S('a').shout()=='A!'",
            "assert S('a')=='a'",
        ),
    ),
    Shape(
        "abc",
        """\
from abc import ABC, abstractmethod
class Shape(ABC):
    @abstractmethod
    def area(s): ...
class Sq(Shape):
    def __init__(s,a): s.a=a
    def area(s): return s.a**2
""",
        (
            """\
assert Sq(3).area()==9
assert issubclass(Sq,Shape)
assert isinstance(Sq(1),Shape)
try:
    Shape()
    assert False
except TypeError:
    pass
""",
        ),
    ),
    Shape(
        "decorator",
        """\
import functools
def twice(f):
    @functools.wraps(f)
    def w(*a,**k):
        f(*a,**k)
        return f(*a,**k)
    w.calls=0
    return w
def memo(f):
    c={}
    def g(*a):
        if a not in c: c[a]=f(*a)
        return c[a]
    g.cache=c
    return g
""",
        (
            """\
calls=[]
@twice
def f(x):
    calls.append(x)
    return x
assert f(3)==3 and calls==[3,3]
assert f.__name__=='f'
""",
            """\
n=0
@memo
def sq(x):
    global n
    n+=1
    return x*x
assert sq(2)==4 and sq(2)==4 and n==1
""",
            """\
@memo
def g(x): return x
g(1)
assert g.cache=={(1,):1}
""",
        ),
    ),
    Shape(
        "decorator raise",
        """\
def retry(n):
    def d(f):
        def w(*a,**k):
            for i in range(n):
                try:
                    return f(*a,**k)
                except Exception as e:
                    err=e
            raise err
        return w
    return d
""",
        (
            """\
n=0
@retry(3)
def f():
    global n
    n+=1
    if n<3: raise ValueError('no')
    return 'ok'
assert f()=='ok'
""",
            """\
@retry(2)
def f():
    raise KeyError('gone')
try:
    f()
    assert False
except KeyError as e:
    assert e.args==('gone',)
""",
            """\
class E(Exception): pass
@retry(2)
def f(): raise E('mine')
try:
    f()
    assert False
except E as e:
    assert str(e)=='mine'
""",
        ),
    ),
    Shape(
        "test generator to prog",
        """\
def take(it,n):
    out=[]
    for i,x in enumerate(it):
        if i>=n: break
        out.append(x)
    return out
def chunks(it):
    return [list(x) for x in it]
""",
        (
            """\
import itertools
assert take(itertools.count(),3)==[0,1,2]
""",
            "assert take((x*x for x in range(10)),2)==[0,1]",
            """\
def g():
    i=0
    while True:
        yield i
        i+=1
assert take(g(),3)==[0,1,2]
""",
            "assert take(iter([1,2,3]),2)==[1,2]",
            "assert take(map(str,[1,2]),1)==['1']",
            "assert take(range(5),2)==[0,1]",
        ),
    ),
    Shape(
        "closures",
        """\
def counter():
    n=0
    def inc():
        nonlocal n
        n+=1
        return n
    return inc
def compose(*fs):
    def h(x):
        for f in reversed(fs): x=f(x)
        return x
    return h
""",
        (
            """\
c=counter()
assert c()==1 and c()==2
d=counter()
assert d()==1
""",
            "assert compose(lambda x:x+1, lambda x:x*2)(5)==11",
            "assert compose(str,len)([1,2])=='2'",
            "assert compose(abs)(-1)==1",
            """\
import math
assert compose(math.sqrt)(4)==2
""",
        ),
    ),
    Shape(
        "object arg types",
        """\
def kind(x): return type(x).__name__
def apply(o): return o.value
""",
        (
            """\
assert kind({1,2})=='set' and kind((1,))=='tuple' and kind(1j)=='complex' and kind(b'a')=='bytes' and kind(frozenset())=='frozenset'
""",
            """\
class T:
    value=5
assert apply(T())==5
""",
            """\
import types
assert apply(types.SimpleNamespace(value=3))==3
""",
            """\
import datetime
assert kind(datetime.date(2020,1,1))=='date'
""",
            """\
import decimal
assert kind(decimal.Decimal('1'))=='Decimal'
""",
        ),
    ),
    Shape(
        "test object tree",
        """\
def inorder(root):
    return inorder(root.left)+[root.val]+inorder(root.right) if root else []
def invert(root):
    if root: root.left,root.right=invert(root.right),invert(root.left)
    return root
""",
        (
            """\
class N:
    def __init__(self,val,left=None,right=None):
        self.val=val;self.left=left;self.right=right
assert inorder(N(2,N(1),N(3)))==[1,2,3]
""",
            """\
class N:
    def __init__(self,val,left=None,right=None):
        self.val=val;self.left=left;self.right=right
r=invert(N(2,N(1),N(3)))
assert r.left.val==3 and r.right.val==1
assert r.val==2
""",
        ),
    ),
    Shape(
        "prog tree",
        """\
class Node:
    def __init__(s,v): s.v=v; s.next=None
def build(xs):
    h=None
    for x in reversed(xs):
        n=Node(x); n.next=h; h=n
    return h
def rev(h):
    p=None
    while h: h.next,p,h=p,h,h.next
    return p
""",
        (
            """\
h=build([1,2,3])
assert h.v==1 and h.next.next.next is None
r=rev(h)
assert r.v==3 and r.next.v==2
""",
            """\
n=Node(1)
n.next=Node(2)
assert rev(n).v==2
""",
            """\
n=Node(1)
m=Node(2)
n.next=m
assert n.next is m
assert rev(n) is m
""",
        ),
    ),
    Shape(
        "threads",
        """\
import threading
class C:
    def __init__(s): s.n=0; s.l=threading.Lock()
    def inc(s):
        with s.l: s.n+=1
""",
        (
            """\
import threading
c=C()
ts=[threading.Thread(target=c.inc) for _ in range(8)]
[t.start() for t in ts]
[t.join() for t in ts]
assert c.n==8
""",
        ),
    ),
    Shape(
        "print capture",
        "def hello(): print('hi')",
        (
            r"""
import io,contextlib
b=io.StringIO()
with contextlib.redirect_stdout(b):
    hello()
assert b.getvalue()=='hi\n'
""",
            r"""
import io,sys
old=sys.stdout
sys.stdout=io.StringIO()
hello()
out=sys.stdout.getvalue()
sys.stdout=old
assert out=='hi\n'
""",
            r"""
from unittest.mock import patch
import io
with patch('sys.stdout',new_callable=io.StringIO) as o:
    hello()
assert o.getvalue()=='hi\n'
""",
        ),
    ),
    Shape(
        "input patch",
        "def ask(): return int(input('n? '))+1",
        (
            """\
from unittest.mock import patch
with patch('builtins.input',return_value='4'):
    assert ask()==5
""",
            """\
import builtins
old=builtins.input
builtins.input=lambda *a:'7'
assert ask()==8
builtins.input=old
""",
        ),
    ),
    Shape(
        "mock arg",
        "def notify(s): s.send('x'); return s.count()",
        (
            """\
from unittest.mock import Mock
m=Mock()
m.count.return_value=3
assert notify(m)==3
m.send.assert_called_once_with('x')
""",
        ),
    ),
    Shape(
        "hasattr/getattr/dir",
        """\
class A:
    x=1
    def m(s): return 2
""",
        (
            """\
assert hasattr(A(),'m') and not hasattr(A(),'q')
assert getattr(A(),'x')==1 and getattr(A(),'zz',5)==5
setattr(a:=A(),'x',9)
assert a.x==9
""",
            "assert 'm' in dir(A)",
            "assert A.x==1",
            "assert callable(A().m)",
            "assert A.__doc__ is None",
        ),
    ),
    Shape(
        "doc/annot",
        """\
def f(a:int,b:str='x')->bool:
    '''Doc.'''
    return True
""",
        (
            "assert f.__doc__=='Doc.'",
            "assert f.__name__=='f'",
            "assert f.__defaults__==('x',)",
        ),
    ),
    Shape(
        "slots",
        """\
class A:
    __slots__=('x',)
    def __init__(s): s.x=1
""",
        (
            """\
a=A()
try:
    a.y=1
    assert False
except AttributeError:
    pass
assert a.x==1
""",
        ),
    ),
    Shape(
        "singleton",
        """\
class S:
    _i=None
    def __new__(c):
        if c._i is None: c._i=super().__new__(c)
        return c._i
""",
        ("assert S() is S()",),
    ),
    Shape(
        "hash dict key",
        """\
class K:
    def __init__(s,a): s.a=a
    def __hash__(s): return hash(s.a)
    def __eq__(s,o): return s.a==o.a
""",
        (
            """\
d={K(1):'x'}
assert d[K(1)]=='x' and K(2) not in d
""",
        ),
    ),
    Shape(
        "total ordering",
        """\
from functools import total_ordering
@total_ordering
class V:
    def __init__(s,*p): s.p=p
    def __eq__(s,o): return s.p==o.p
    def __lt__(s,o): return s.p<o.p
""",
        (
            "assert V(1,2)<V(1,3)<=V(1,3) and V(2)>V(1) and V(2)>=V(1)",
            "assert sorted([V(2),V(1)])[0]==V(1)",
            "assert min(V(3),V(1),key=lambda v:v.p)==V(1)",
        ),
    ),
    Shape(
        "metaclass",
        """\
class M(type):
    def __call__(c,*a):
        o=super().__call__(*a); o.tag='m'; return o
class A(metaclass=M): pass
""",
        ("assert A().tag=='m'",),
    ),
    Shape(
        "partial/method ref",
        """\
from functools import partial
add3=partial(lambda a,b:a+b,3)
up=str.upper
""",
        (
            "assert add3(4)==7",
            "assert up('a')=='A'",
        ),
    ),
    Shape(
        "return builtins",
        """\
def f(): return len
def g(): return int
def h(): return print
""",
        ("assert g() is int and g()('3')==3",),
    ),
    Shape(
        "returns class",
        "def make(name): return type(name,(),{'v':1})",
        (
            """\
C=make('Z')
assert C().v==1 and C.__name__=='Z'
""",
        ),
    ),
    Shape(
        "returns module-type",
        r"""
import re
def f(s): return re.match(r'(\d+)-(\d+)',s)
""",
        (
            """\
m=f('12-34')
assert m.group(1)=='12' and m.groups()==('12','34')
""",
            "assert f('x') is None",
            "assert f('1-2')[2]=='2'",
            "assert f('1-2').span()==(0,3)",
        ),
    ),
    Shape(
        "Fraction/Decimal",
        """\
from fractions import Fraction
from decimal import Decimal
def f(): return Fraction(1,3)
def d(): return Decimal('1.10')
""",
        (
            """\
from fractions import Fraction
assert f()==Fraction(1,3) and 3*f()==1
""",
            """\
from decimal import Decimal
assert d()==Decimal('1.1')
""",
        ),
    ),
    Shape(
        "deep recursion value",
        """\
def f(n):
    r=[]
    for _ in range(n): r=[r]
    return r
""",
        (
            """\
r=f(90)
d=0
while r:
    r=r[0];d+=1
assert d==90
""",
        ),
    ),
    Shape(
        "linked dict cycle",
        """\
def f():
    a={}
    a['s']=a
    return a
""",
        (
            """\
a=f()
assert a['s'] is a
""",
        ),
    ),
    Shape(
        "mutate arg",
        """\
def f(l): l.sort(); l.append(9)
def g(d): d['a']=1
def h(m): m[0][0]=7
""",
        (
            """\
l=[3,1]
assert f(l) is None and l==[1,3,9]
""",
            """\
d={}
g(d)
assert d=={'a':1}
""",
            """\
m=[[1]]
r=m[0]
h(m)
assert r==[7]
""",
        ),
    ),
    Shape(
        "isinstance typing",
        "def f(): return [1]",
        (
            """\
from typing import List
assert isinstance(f(),list)
""",
            """\
from collections.abc import Sequence
assert isinstance(f(),Sequence)
""",
        ),
    ),
    Shape(
        "iterable protocol of obj",
        """\
class S:
    def __init__(s): s.d=[1,2]
    def __iter__(s):
        yield from s.d
    def __len__(s): return 2
""",
        (
            """\
from collections.abc import Iterable, Sized
assert isinstance(S(),Iterable) and isinstance(S(),Sized)
""",
            "assert set(S())=={1,2} and tuple(S())==(1,2)",
            "assert list(enumerate(S()))==[(0,1),(1,2)]",
        ),
    ),
    Shape(
        "str subclass returned",
        """\
class S(str): pass
def f(): return S('abc')
""",
        (
            "assert f()=='abc'",
            "assert f().upper()=='ABC'",
        ),
    ),
    Shape(
        "bool proxies in ifs",
        """\
class R:
    def __init__(s,ok): s.ok=ok
    def __bool__(s): return s.ok
""",
        (
            "assert R(True)",
            "assert not R(False)",
            "assert bool(R(True)) is True",
            "assert any([R(False),R(True)])",
        ),
    ),
    Shape(
        "copy/pickle",
        """\
class P:
    def __init__(s,x): s.x=x
    def __eq__(s,o): return s.x==o.x
""",
        (
            """\
import copy
p=P([1])
q=copy.copy(p)
assert q==p and q is not p
""",
            """\
import copy
p=P([1])
q=copy.deepcopy(p)
q.x.append(2)
assert p.x==[1]
""",
        ),
    ),
    Shape(
        "weird names",
        """\
def été(x): return x
def f_(x, /, y, *, z=1): return x+y+z
""",
        (
            "assert été(1)==1",
            "assert f_(1,2,z=3)==6",
        ),
    ),
    Shape(
        "ends a loop by name",
        """\
def first(items):
    return next(iter(items))
""",
        (
            """\
try:
    first([])
    assert False
except StopIteration:
    pass
""",
            """\
import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertRaises(StopIteration, first, [])
        self.assertEqual(list(map(first, [[1], [2]])), [1, 2])
""",
        ),
    ),
    Shape(
        "cancelled by name",
        """\
import asyncio
async def wait():
    raise asyncio.CancelledError
""",
        (
            """\
import asyncio
try:
    asyncio.run(wait())
    assert False
except asyncio.CancelledError:
    pass
""",
        ),
    ),
    Shape(
        "cm suppress inside",
        """\
from contextlib import contextmanager
class T:
    open=rolled=False
    def __enter__(s): s.open=True; return s
    def __exit__(s,t,v,tb): s.open=False; s.rolled=t is not None; return s.rolled
@contextmanager
def ignoring(*e):
    try:
        yield
    except e:
        pass
""",
        (
            """\
with ignoring(ValueError):
    raise ValueError(1)
    assert False, 'not reached'
""",
            """\
with ignoring(AssertionError):
    assert 1 == 2
""",
            """\
t=T()
with t:
    assert t.open
    raise ValueError(1)
assert t.rolled and not t.open
""",
            """\
with ignoring(ValueError):
    with T() as t:
        assert t.open
    assert not t.rolled
    int('x')
""",
            """\
import contextlib
with contextlib.ExitStack() as stack:
    t = stack.enter_context(T())
    assert t.open
    raise KeyError
assert t.rolled
""",
        ),
    ),
    Shape(
        "named tuple with methods, from a function and back",
        """\
from typing import NamedTuple
class P(NamedTuple):
    x: int
    y: list
    def area(self): return self.x*len(self.y)
def make(a,*b): return P(a,list(b))
def area(p): return p.area()
def grow(p): p.y.append(0)
""",
        (
            "assert make(2,3,4).area()==4 and make(2,3)==(2,[3]) and make(1).x==1",
            "p=make(2,3)\nassert area(p)==2 and [area(q) for q in [p,make(3,1,1)]]==[2,6]",
            "p=make(2,3)\ngrow(p)\nassert area(p)==4",
            "assert isinstance(make(1),P) and make(1)._asdict()=={'x':1,'y':[]}",
            "import copy\np=make(1,5)\nq=copy.deepcopy(p)\nassert q==p and area(copy.copy(p))==1",
            "a,b=make(1,2)\nassert (a,b)==(1,[2]) and {'k':make(1)}['k'].x==1",
            "assert make(1)._replace(x=7).x==7 and sorted([make(2),make(1)])[0].x==1",
        ),
    ),
    Shape(
        "enum that is data",
        """\
from enum import IntEnum, StrEnum
class L(IntEnum):
    LOW=1
    HIGH=2
    @property
    def loud(self): return self is L.HIGH
class C(StrEnum):
    RED='red'
def level(x): return L.HIGH if x>3 else L.LOW
def colour(): return C.RED
def name_of(l): return l.name.lower()
""",
        (
            "assert level(5).name=='HIGH' and level(5)==2 and level(1)<level(5) and level(1)+1==2",
            "assert level(5) is L.HIGH and isinstance(level(1),L) and level(5).loud",
            "assert colour().value=='red' and colour()=='red' and colour().upper()=='RED'",
            "assert name_of(level(5))=='high' and name_of(L.LOW)=='low'",
            "assert [l.name for l in map(level,[1,9])]==['LOW','HIGH'] and {level(5):1}[2]==1",
            "import json,copy\nassert json.dumps([level(5),colour()])=='[2, \"red\"]'\n"
            "assert copy.deepcopy(level(5)).name=='HIGH' and f'{level(5):03d}'=='002'",
        ),
    ),
    Shape(
        "text and numbers with methods of their own",
        """\
class U(str):
    def shout(self): return self.upper()+'!'
class M(float):
    def rounded(self): return round(self,1)
def text(x): return U(x)
def money(x): return M(x)
""",
        (
            "assert text('a')=='a' and text('a').shout()=='A!' and text('ab')[::-1]=='ba'",
            "assert money(2.55)>2.5 and money(2.04).rounded()==2.0 and abs(money(1)-1)<1e-9",
        ),
    ),
    Shape(
        "exception classes derived from each other",
        """\
class AppError(Exception):
    def __init__(self,code,text):
        super().__init__(text)
        self.code=code
class NotFound(AppError,KeyError): pass
class Gone(NotFound): pass
def f(x): raise (NotFound if x else Gone)(7,'bad')
def codes(): raise __import__('json').JSONDecodeError('x','y',0)
class Odd(__import__('json').JSONDecodeError): pass
def odd(): raise Odd('x','y',0)
""",
        (
            """\
for x in (0,1):
    try:
        f(x)
    except AppError as e:
        assert e.code==7 and isinstance(e,KeyError) and isinstance(e,NotFound)
    else:
        raise AssertionError('nothing raised')
""",
            """\
import unittest
class T(unittest.TestCase):
    def test(self):
        with self.assertRaises(AppError) as caught:
            f(0)
        self.assertEqual(caught.exception.code,7)
        with self.assertRaisesRegex(NotFound,'bad'):
            f(0)
        with self.assertRaises(LookupError):
            f(1)
        with self.assertRaises(ValueError):
            odd()
""",
            """\
try:
    f(1)
except Gone:
    raise AssertionError('its parent was raised')
except AppError:
    pass
""",
            "assert issubclass(Gone,AppError) and not issubclass(AppError,NotFound)",
        ),
    ),
    Shape(
        "functions of the library that tests patch",
        """\
import random
import time
def wait(): time.sleep(1000); return 1
def say(x): print('x =',x)
def roll(): return random.randint(1,6)+random.choice([1,2])
def now(): return time.time()
""",
        (
            """\
from unittest.mock import patch
with patch('time.sleep') as slept:
    assert wait()==1
    slept.assert_called_once_with(1000)
""",
            """\
from unittest.mock import patch
with patch('builtins.print') as printed:
    say(3)
printed.assert_called_once_with('x =',3)
""",
            """\
from unittest.mock import patch
with patch('random.randint',return_value=5), patch('random.choice',side_effect=lambda xs: xs[-1]):
    assert roll()==7
assert 2<=roll()<=8
""",
            """\
import time
from unittest.mock import patch
with patch('time.time',return_value=12.5):
    assert now()==12.5
assert abs(now()-time.time())<60
""",
        ),
    ),
    Shape(
        "operators of a class that also answers for itself",
        """\
class V:
    def __init__(s,x,y): s.x,s.y=x,y
    def __add__(s,o): return V(s.x+o.x,s.y+o.y)
    def __mul__(s,k): return V(s.x*k,s.y*k)
    __rmul__=__mul__
    def __eq__(s,o): return isinstance(o,V) and (s.x,s.y)==(o.x,o.y)
    def __hash__(s): return hash((s.x,s.y))
    def __repr__(s): return f'V({s.x}, {s.y})'
    def __abs__(s): return (s.x**2+s.y**2)**.5
    def __getitem__(s,i): return (s.x,s.y)[i]
    def __len__(s): return 2
""",
        (
            """\
assert 2*V(1,2)==V(2,4) and V(1,2)*2==V(2,4)
assert repr(V(1,2))=='V(1, 2)' and len(V(1,2))==2
assert abs(V(3,4))==5 and V(3,4)[0]==3 and len({V(1,2),V(1,2)})==1
""",
            """\
import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertEqual(V(1,2)*3,V(3,6))
        self.assertEqual(str(V(1,2)),'V(1, 2)')
        self.assertEqual(len(V(1,2)),2)
""",
        ),
    ),
    Shape(
        "containers that both sides change",
        """\
class Stack:
    def __init__(self): self.items=[]; self.meta={}; self.seen=set()
    def push(self,x): self.items.append(x)
    def pop(self): return self.items.pop()
    def size(self): return len(self.items)
    def get(self): return self.items
    def has(self,k): return k in self.meta
    def nested(self): return {'a': self.items}
LOG=[]
def log(x): LOG.append(x)
""",
        (
            "s=Stack()\ns.items.append(3)\nassert s.size()==1",
            "s=Stack()\ns.get().append(3)\nassert s.size()==1 and s.items==[3]",
            "s=Stack()\ns.meta['k']=1\ns.seen.add(2)\nassert s.has('k') and s.seen=={2}",
            "s=Stack()\nx=s.items\ns.push(4)\nassert x==[4]\nx.append(1)\nassert s.pop()==1",
            "s=Stack()\ns.items.extend([1,2])\ns.items.sort(reverse=True)\nassert s.pop()==1",
            "s=Stack()\ns.nested()['a'].append(1)\nassert s.size()==1 and s.items is s.items",
            "s=Stack()\ns.__dict__['items']=[1,2]\nassert s.size()==2 and vars(s)['items']==[1,2]",
            "a,b=Stack(),Stack()\na.items.append(1)\nassert b.items==[] and a.items is not b.items",
            "import solution\nsolution.LOG.append(5)\nsolution.log(7)\nassert solution.LOG[-2:]==[5,7]",
        ),
    ),
    Shape(
        "containers of classes of its own",
        """\
from collections import Counter
class Pile(list):
    def push(self,x): self.append(x)
    def peek(self): return self[-1]
class Bag(Counter):
    def kinds(self): return len(self)
class Attrs(dict):
    def __getattr__(self,k): return self[k]
def pile(): return Pile([1,2])
def attrs(): return Attrs(a=1)
def grow(p): p.push(9); return p
""",
        (
            "s=Pile()\ns.push(1)\nassert s==[1] and [1]==s and s!=[2] and s.peek()==1",
            "s=pile()\ns.push(5)\nassert s.peek()==5 and s==[1,2,5] and isinstance(s,list)",
            "s=pile()\ns.append(4)\nassert s.peek()==4 and isinstance(s,Pile) and grow(s)[-1]==9",
            "s=pile()\ngrow(s)\nassert s==[1,2,9] and grow(s) is s",
            "assert Bag('aab').kinds()==2 and Bag('aab')=={'a':2,'b':1}",
            "import copy,json\nx=attrs()\nassert x.a==1 and json.dumps(x)=='{\"a\": 1}'\n"
            "y=copy.deepcopy(x)\ny['a']=2\nassert x=={'a':1}",
        ),
    ),
    Shape(
        "dataclasses through the library's functions",
        """\
from dataclasses import dataclass, field
@dataclass
class P:
    x: int
    tags: list = field(default_factory=list)
""",
        (
            "from dataclasses import asdict, astuple\n"
            "assert asdict(P(1))=={'x':1,'tags':[]} and astuple(P(1,[2]))==(1,[2])",
            "from dataclasses import replace\nq=replace(P(1,[2]),x=5)\nassert q==P(5,[2])",
            "import dataclasses\nassert [f.name for f in dataclasses.fields(P)]==['x','tags']\n"
            "assert dataclasses.is_dataclass(P) and dataclasses.is_dataclass(P(1))",
            "assert vars(P(1))=={'x':1,'tags':[]} and P.__annotations__['x'] is int",
        ),
    ),
    Shape(
        "what an exception has beside its arguments",
        """\
import json
class AppError(Exception): pass
def chained():
    try:
        int('x')
    except ValueError as e:
        raise AppError('bad') from e
def during():
    try:
        {}['k']
    except KeyError:
        raise AppError('during')
def quiet():
    try:
        {}['k']
    except KeyError:
        raise AppError('quiet') from None
def noted():
    e = AppError('n')
    e.add_note('seen')
    raise e
def missing(): open('/nonexistent/x')
def parse(): json.loads('{')
""",
        (
            "try:\n    chained()\nexcept AppError as e:\n"
            "    assert isinstance(e.__cause__, ValueError) and 'literal' in str(e.__cause__)",
            "try:\n    during()\nexcept AppError as e:\n"
            "    assert isinstance(e.__context__, KeyError) and e.__cause__ is None",
            "try:\n    quiet()\nexcept AppError as e:\n"
            "    assert e.__cause__ is None and e.__suppress_context__",
            "try:\n    noted()\nexcept AppError as e:\n    assert e.__notes__==['seen']",
            "try:\n    missing()\nexcept FileNotFoundError as e:\n"
            "    assert e.errno==2 and e.filename=='/nonexistent/x' and '/nonexistent/x' in str(e)",
            "import json\ntry:\n    parse()\nexcept json.JSONDecodeError as e:\n"
            "    assert e.pos==1 and e.lineno==1 and e.doc=='{'",
        ),
    ),
    Shape(
        "signatures",
        """\
def f(a, b=2, *args, c, d: int = 4, **kw) -> str: return str(a)
class K:
    __slots__ = ('v',)
    def m(self, x, y=1): return x
""",
        (
            "import inspect\nassert str(inspect.signature(f))=="
            "'(a, b=2, *args, c, d: int = 4, **kw) -> str'",
            "import inspect\nassert list(inspect.signature(K().m).parameters)==['x','y']",
            "assert f.__annotations__=={'d':int,'return':str} and K.__slots__==('v',)",
        ),
    ),
    Shape(
        "the seed of the tests",
        """\
import random
def roll(): return random.randint(1,10**6)
def mixed(x): random.shuffle(x); return x
""",
        (
            "import random\nrandom.seed(0)\nwant=random.randint(1,10**6)\n"
            "random.seed(0)\nassert roll()==want",
            "import random\nrandom.seed(1)\nx=mixed(list(range(20)))\n"
            "random.seed(1)\ny=list(range(20))\nrandom.shuffle(y)\nassert x==y",
        ),
    ),
    Shape(
        "files, variables and arguments of the tests",
        """\
import os, sys
def read(p):
    with open(p) as f: return f.read()
def write(p,t):
    with open(p,'w') as f: f.write(t)
def variable(k): return os.getenv(k)
def arguments(): return sys.argv[1:]
def where(): return os.getcwd()
def complain(): print('no', file=sys.stderr)
def lines(f): return [l.strip() for l in f]
""",
        (
            "import tempfile\nwith tempfile.NamedTemporaryFile('w',suffix='.txt') as f:\n"
            "    f.write('hello')\n    f.flush()\n    assert read(f.name)=='hello'",
            "import tempfile,os\nwith tempfile.TemporaryDirectory() as d:\n"
            "    p=os.path.join(d,'a')\n    write(p,'x')\n    assert open(p).read()=='x'",
            "from unittest.mock import patch\nimport os\n"
            "with patch.dict(os.environ,{'QQ':'2'}): assert variable('QQ')=='2'\n"
            "assert variable('QQ') is None",
            "from unittest.mock import patch\nwith patch('sys.argv',['p','a']): "
            "assert arguments()==['a']",
            "import os,tempfile\nd=tempfile.mkdtemp()\nos.chdir(d)\nassert where()==os.getcwd()",
            "import io\nfrom contextlib import redirect_stderr\ne=io.StringIO()\n"
            "with redirect_stderr(e): complain()\nassert e.getvalue()=='no\\n'",
            "import io\nassert lines(io.StringIO('a\\nb\\n'))==['a','b']",
            "from unittest.mock import mock_open, patch\n"
            "with patch('builtins.open',mock_open(read_data='zz')): assert read('any')=='zz'",
        ),
    ),
    Shape(
        "names of the program that tests patch",
        """\
import datetime, os
class Api:
    def fetch(self): return 'real'
api=Api()
RATE=2
def helper(x): return x+1
def use(x): return helper(x)*RATE
def fetch(): return api.fetch()
def today(): return datetime.date.today()
def there(): return os.path.exists('/zz')
""",
        (
            "from unittest.mock import patch\nwith patch('solution.helper',return_value=10) as m:\n"
            "    assert use(1)==20\n    m.assert_called_once_with(1)\nassert use(1)==4",
            "from unittest.mock import patch\nwith patch('solution.RATE',5): assert use(1)==10",
            "from unittest.mock import patch\nwith patch('solution.api') as m:\n"
            "    m.fetch.return_value='fake'\n    assert fetch()=='fake'\nassert fetch()=='real'",
            "from unittest.mock import patch\n"
            "with patch.object(Api,'fetch',return_value='f'): assert fetch()=='f'\n"
            "assert fetch()=='real'",
            "from unittest.mock import patch\nimport datetime\nwith patch('solution.datetime') as m:\n"
            "    m.date.today.return_value=datetime.date(2020,1,1)\n"
            "    assert today()==datetime.date(2020,1,1)",
            "from unittest.mock import patch\nwith patch('os.path.exists',return_value=True): "
            "assert there()\nassert not there()",
            "import solution\nsolution.helper=lambda x: 100\nassert solution.use(1)==200",
        ),
    ),
)
_STACK: Final = """\
    def push(self, x): self.append(x)
    def pop(self):
        if not len(self): raise IndexError('empty')
        return {base}.pop(self)
    def __repr__(self): return f'Stack({{list(self)}})'
"""
_MONEY: Final = """\
    def __add__(self, other): return Money(self.n + other.n)
    def __lt__(self, other): return self.n < other.n
    def doubled(self): return self + self
    @property
    def half(self): return self.n / 2
"""
_STACKS: Final = {
    base: f"from collections import {module or 'deque'}\nclass Stack({base}):\n"
    + _STACK.format(base=base)
    for base, module in (("list", ""), ("deque", ""), ("UserList", "UserList"))
}
_MONIES: Final = {
    "a class": "class Money:\n    def __init__(self, n): self.n = n\n"
    "    def __eq__(self, other): return self.n == other.n\n" + _MONEY,
    "a named tuple": "from typing import NamedTuple\nclass Of(NamedTuple):\n    n: int\n"
    "class Money(Of):\n" + _MONEY,
    "a dataclass": "from dataclasses import dataclass\n@dataclass\nclass Money:\n    n: int\n"
    + _MONEY,
}
_OF_STACKS: Final = """\
import unittest
class Case(unittest.TestCase):
    def setUp(self):
        self.s = {Stack}()
    def test_it(self):
        self.s.push(1)
        self.s.push(2)
        self.assertEqual(self.s.pop(), 2)
        self.assertEqual(len(self.s), 1)
        self.assertIn(1, self.s)
        self.assertEqual(repr(self.s), 'Stack([1])')
        self.assertEqual(self.s.pop(), 1)
        with self.assertRaises(IndexError) as caught:
            self.s.pop()
        self.assertEqual(str(caught.exception), 'empty')
"""
_OF_MONEY: Final = """\
import unittest
class Case(unittest.TestCase):
    def test_it(self):
        self.assertEqual({Money}(2) + {Money}(3), {Money}(5))
        self.assertEqual({Money}(2).doubled(), {Money}(4))
        self.assertEqual({Money}(1).doubled() + {Money}(1), {Money}(3))
        self.assertEqual({Money}(4).half, 2.0)
        self.assertLess({Money}(1), {Money}(2))
"""
_COUNTS: Final = {
    "a class whose iteration begins again": "class Count:\n    def __init__(s, n): s.n = n\n"
    "    def __iter__(s):\n        s.i = 0\n        return s\n    def __next__(s):\n"
    "        if s.i >= s.n: raise StopIteration\n        s.i += 1\n        return s.i - 1\n"
    "    def __len__(s): return s.n\n",
    "a class with other iterators": "class Count:\n    def __init__(s, n): s.n, s.i = n, 0\n"
    "    def __iter__(s): return iter(range(s.n))\n    def __next__(s):\n        s.i += 1\n"
    "        return s.i - 1\n    def __len__(s): return s.n\n",
    "a class with a generator": "class Count:\n    def __init__(s, n): s.n = n\n"
    "    def __iter__(s):\n        yield from range(s.n)\n    def __len__(s): return s.n\n",
    "a sequence": "from collections.abc import Sequence\nclass Count(Sequence):\n"
    "    def __init__(s, n): s.n = n\n    def __getitem__(s, i): return range(s.n)[i]\n"
    "    def __len__(s): return s.n\n",
}
_OF_COUNTS: Final = """\
c = {Count}(3)
assert len(c) == 3
assert list(c) == [0, 1, 2]
assert list(c) == [0, 1, 2]
assert [x + y for x in c for y in {Count}(2)] == [0, 1, 1, 2, 2, 3]
assert sum({Count}(4)) == 6 and max({Count}(5)) == 4 and 1 in {Count}(2)
a, b = {Count}(2)
assert (a, b) == (0, 1)
assert dict(zip('ab', {Count}(2))) == {'a': 0, 'b': 1}
assert bool({Count}(2))
for x in {Count}(9):
    if x == 4: break
assert x == 4
"""
_WAYS: Final = (
    ("", "{}"),
    ("from solution import {}\n", "{}"),
    ("from solution import {} as Own\n", "Own"),
    ("import solution\n", "solution.{}"),
    ("import solution as ours\n", "ours.{}"),
    ("from solution import *\n", "{}"),
)
"""How tests reach a class: an import, and its name then."""


def _derived(kind: str, programs: dict[str, str], test: str) -> Iterator[Shape]:
    """Classes of the program that are derived from data, however the tests reach them."""
    tests = tuple(
        begins.format(kind) + test.replace(f"{{{kind}}}", name.format(kind))
        for begins, name in _WAYS
    )
    yield from (Shape(f"{kind} is {how}", program, tests) for how, program in programs.items())


SHAPES: Final = (
    *_PROTOCOLS,
    *_derived("Stack", _STACKS, _OF_STACKS),
    *_derived("Money", _MONIES, _OF_MONEY),
    *_derived("Count", _COUNTS, _OF_COUNTS),
)
