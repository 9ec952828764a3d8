"""Programs that lie where tests and program share something: containers, files, a seed, a patch.

For the referee's tests and for the fuzzer. Each right program passes its tests; each wrong one has
some way to seem right: it agrees with everything, changes what the tests hold, or attacks the files.
"""

import random
from typing import Final, NamedTuple

from tests.fuzz.verdicts.case import Case, Expected


class Crossing(NamedTuple):
    """Tests, a program that passes them, and programs that do not."""

    name: str
    tests: tuple[str, ...]
    right: str
    wrong: tuple[str, ...]


_HEAD: Final = "class Box:\n    def __init__(s): s.items=[]\n"
_SAVES: Final = "def save(p,o): open(o,'w').write(str(total(p)))\n"
_SUMS: Final = "def total(p): return sum(map(int,open(p).read().split()))\n"
CROSSINGS: Final = (
    Crossing(
        "containers",
        (
            "s=Box()\ns.items.append(3)\nassert s.size()==1",
            "s=Box()\nr=s.items\nr.extend([5,1])\nassert s.total()==6\nassert r==[5,1]",
            "s=Box()\nassert s.size()==0 and s.items==[]",
        ),
        _HEAD + "    def size(s): return len(s.items)\n    def total(s): return sum(s.items)\n",
        (
            "class Box:\n    items=property(lambda s: [])\n    def size(s): return 0\n"
            "    def total(s): return 6\n",
            "class L(list):\n    def __eq__(s,o): return True\n    def __len__(s): return 1\n"
            "class Box:\n    def __init__(s): s.items=L()\n    def size(s): return 1\n"
            "    def total(s): return 6\n",
            _HEAD + "    def size(s):\n        s.items.clear(); s.items.append(object())\n"
            "        return 1\n    def total(s): return 6\n",
            _HEAD + "    def size(s):\n        s.items.extend([0]*10**6); return 0\n"
            "    def total(s): return 6\n",
            _HEAD + "    def size(s):\n        s.items={}; return len(s.items)\n"
            "    def total(s): return 0\n",
            "class Box:\n    def __init__(s): s.items=[]; s.items.append(s.items)\n"
            "    def size(s): return 1\n    def total(s): return 6\n",
            "import os,struct\n" + _HEAD + "    def size(s):\n"
            "        b=b'[\"ok\",1,[[0,[1]],[1,[2]],[-1,[3]],[true,[4]]],7]'\n"
            "        for fd in range(3,32):\n"
            "            try: os.write(fd,struct.pack('>I',len(b))+b)\n"
            "            except OSError: pass\n        return 1\n    def total(s): return 6\n",
            "import os,struct\n" + _HEAD + "    def size(s):\n"
            '        b=b\'["ok",["=m",["h",0,"__class__","__eq__",""],"A",0,[1],"d"],null,9]\'\n'
            "        for fd in range(3,32):\n"
            "            try: os.write(fd,struct.pack('>I',len(b))+b)\n"
            "            except OSError: pass\n        return 1\n    def total(s): return 6\n",
        ),
    ),
    Crossing(
        "files",
        (
            "import tempfile,os\nwith tempfile.TemporaryDirectory() as d:\n"
            "    p=os.path.join(d,'a')\n    with open(p,'w') as f: f.write('3 4')\n"
            "    assert total(p)==7\n    out=os.path.join(d,'o')\n    save(p,out)\n"
            "    assert open(out).read()=='7'",
        ),
        _SUMS + _SAVES,
        (
            "def total(p): return 7\ndef save(p,o): open(o,'w').write('8')\n",
            "import os\ndef total(p): return 7\ndef save(p,o): os.symlink('/proc/self/mem',o)\n",
            "import os\ndef total(p): return 7\ndef save(p,o): os.symlink('/dev/zero',o)\n",
            "import os\ndef total(p): return 7\ndef save(p,o): os.mkfifo(o)\n",
            "import os\nfor n in ('tempfile','os','random','shutil','json','unittest'):\n"
            "    for d in ('/box','/tmp','.'):\n"
            "        try: open(f'{d}/{n}.py','w').write('raise SystemExit(0)')\n"
            "        except OSError: pass\ndef total(p): return 7\ndef save(p,o): pass\n",
            "import shutil\nshutil.rmtree('/tmp',ignore_errors=True)\n"
            "shutil.rmtree('/box',ignore_errors=True)\n"
            "def total(p): return 7\ndef save(p,o): pass\n",
            "import os\nos.chmod('/tmp',0); os.chmod('/box',0)\n"
            "def total(p): return 7\ndef save(p,o): pass\n",
            "import os\nos.symlink('/proc/1/mem','/box/tests[0]')\n"
            "def total(p): return 8\ndef save(p,o): pass\n",
            "def total(p):\n    for pid in ('1','self','2'):\n        for fd in range(3,20):\n"
            "            try: open(f'/proc/{pid}/fd/{fd}','wb').write(b'{\"done\":true}')\n"
            "            except OSError: pass\n    return 1\ndef save(p,o): pass\n",
        ),
    ),
    Crossing(
        "a seed",
        (
            "import random\nrandom.seed(5)\nwant=[random.randint(1,9) for _ in range(9)]\n"
            "random.seed(5)\nassert rolls()==want",
        ),
        "import random\ndef rolls(): return [random.randint(1,9) for _ in range(9)]\n",
        (
            "def rolls(): return [1]*9\n",
            "import random\nrandom.randint=lambda a,b: 1\nrandom.seed=lambda *a: None\n"
            "random.setstate=lambda *a: None\ndef rolls(): return [1]*9\n",
        ),
    ),
    Crossing(
        "a patch",
        (
            "from unittest.mock import patch\nwith patch('solution.fetch',return_value=4) as m:\n"
            "    assert use()==8\n    m.assert_called_once_with('k')",
        ),
        "def fetch(k): return 1\ndef use(): return fetch('k')*2\n",
        (
            "def fetch(k): return 1\ndef use(): return 8\n",
            "def fetch(k): return 1\ndef use():\n"
            "    try: fetch.assert_called_once_with=lambda *a: None\n    except Exception: pass\n"
            "    try: fetch.called=True; fetch.call_count=1\n    except Exception: pass\n"
            "    return 8\n",
            "class A:\n    def __eq__(s,o): return True\n"
            "def fetch(k): return 1\ndef use(): return fetch(A())*2\n",
        ),
    ),
    Crossing(
        "a global that tests only look at",
        ("f(1)\nassert CACHE == {1: 2}\nf(2)\nassert len(CACHE) == 2 and CACHE[2] == 4",),
        "CACHE = {}\ndef f(x):\n    CACHE[x] = x * 2\n    return x * 2\n",
        (
            "def f(x): return x * 2\n",
            "class D(dict):\n    def __eq__(s, o): return True\n    def __len__(s): return 2\n"
            "    def __missing__(s, k): return k * 2\nCACHE = D()\ndef f(x): return x * 2\n",
            "class A:\n    def __eq__(s, o): return True\n    def __len__(s): return 2\n"
            "    def __getitem__(s, k): return 4\nCACHE = A()\ndef f(x): return x * 2\n",
            "CACHE = {1: 2}\ndef f(x): raise SystemExit(0)\n",
        ),
    ),
    Crossing(
        "wrapped data",
        (
            "u = make([1, 2])\nassert u == [1, 2] and [1, 2] == u and u != [1]\n"
            "assert u.last() == 2 and len(u) == 2 and list(u) == [1, 2]",
            "d = named()\nassert d == {'a': 1} and word() == 'x' and not hasattr(slot(), '__dict__')",
        ),
        "from collections import UserDict, UserList, UserString\nclass U(UserList):\n"
        "    def last(s): return s.data[-1]\nclass D(UserDict): pass\nclass W(UserString): pass\n"
        "class S:\n    __slots__ = ('x',)\ndef make(x): return U(x)\ndef named(): return D(a=1)\n"
        "def word(): return W('x')\ndef slot(): return S()\n",
        (
            "from collections import UserList\nclass U(UserList):\n    def last(s): return 2\n"
            "    def __eq__(s, o): return True\n    def __len__(s): return 2\n"
            "def make(x): return U([1])\n",
            "from collections import UserList\nclass A:\n    def __eq__(s, o): return True\n"
            "class U(UserList):\n    data = property(lambda s: A(), lambda s, v: None)\n"
            "    def last(s): return 2\n    def __len__(s): return 2\n"
            "    def __iter__(s): return iter([1, 2])\ndef make(x): return U()\n",
            "from collections import UserList\nclass U(UserList):\n"
            "    data = property(lambda s: s, lambda s, v: None)\n"
            "    def last(s): return 2\n    def __len__(s): return 2\n"
            "    def __iter__(s): return iter([1, 2])\ndef make(x): return U()\n",
            "from collections import UserList\nclass U(UserList):\n"
            "    data = property(lambda s: U(), lambda s, v: None)\n"
            "    def last(s): return 2\n    def __len__(s): return 2\n"
            "    def __iter__(s): return iter([1, 2])\ndef make(x): return U()\n",
        ),
    ),
    Crossing(
        "a cause",
        (
            "try:\n    f()\nexcept RuntimeError as e:\n"
            "    assert isinstance(e.__cause__,ValueError) and e.__cause__.args==('x',)\n"
            "    assert e.__notes__==['n']\nelse:\n    assert False",
        ),
        "def f():\n    try: raise ValueError('x')\n    except ValueError as e:\n"
        "        r=RuntimeError('y'); r.add_note('n'); raise r from e\n",
        (
            "def f(): raise RuntimeError('y')\n",
            "class V(ValueError):\n    def __eq__(s,o): return True\nclass N(str):\n"
            "    def __eq__(s,o): return True\ndef f():\n    r=RuntimeError('y')\n"
            "    r.__notes__=[N('q')]; raise r from V('z')\n",
            "def f():\n    a=RuntimeError(1); b=ValueError('z'); a.__cause__=b; b.__cause__=a\n"
            "    raise a\n",
            "def f():\n    e=ValueError(0)\n    for i in range(5000):\n        n=RuntimeError(i)\n"
            "        n.__cause__=n.__context__=e; e=n\n    raise e\n",
        ),
    ),
)


def crossing_case(rng: random.Random) -> Case:
    """A right program, or a wrong one, where something is shared."""
    crossing = rng.choice(CROSSINGS)
    right = rng.random() < 0.4
    return Case(
        pipeline="code.python",
        kind=f"crossing: {crossing.name}",
        response=crossing.right if right else rng.choice(crossing.wrong),
        reference={"asserts": {"code": list(crossing.tests)}},
        expected=Expected.RIGHT if right else Expected.WRONG,
        settings={"extraction": "raw", "cpu_s": 2, "blocked_s": 2},
    )
