"""Programs that take over the channel to the referee and answer its requests themselves.

Each says that it has loaded, gives the function that the tests look up, and answers every other
request with one form: values of all kinds, malformed ones, exceptions, messages out of turn,
bytes that are no message. None of them says what the tests expect.
"""

import random
from typing import Final

from tests.fuzz.verdicts.case import Case, Expected

_TAKES_OVER: Final = """\
import os, json, struct, sys
def rd(fd,n):
    b=b''
    while len(b)<n:
        c=os.read(fd,n-len(b))
        if not c: os._exit(0)
        b+=c
    return b
def find():
    import stat
    for fd in range(3,64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode): return fd
        except OSError: pass
FD=find()
def send(o):
    b=o if isinstance(o,bytes) else json.dumps(o).encode()
    os.write(FD,struct.pack('>I',len(b))+b)
def loop(rep):
    send(["ok",None,None,0])
    while 1:
        n=struct.unpack('>I',rd(FD,4))[0]
        req=json.loads(rd(FD,n))
        op=req[0]
        if op=='lookup': send(["ok",["h",1,"callable","f",""],None,0]); continue
        r=rep(req)
        if r is not None: send(r)
"""
_ANSWERS: Final = (
    '["ok",["!"],None,0]',
    '["ok",["n","T",["__eq__"],[1]],None,0]',
    '["ok",["n","T",["a"],[4]],None,0]',
    '["ok",["=",4.0,["h",9,"object","int",""]],None,0]',
    '["ok",["=",["t",[]],["h",9,"object","bool",""]],None,0]',
    '["ok",["=",["n","T",["count_"],[1]],["h",9,"object","tuple",""]],None,0]',
    '["ok",["=m",["h",9,"object","list",""],"l",0,[]],None,0]',
    '["ok",["=m",["h",9,"object","Mock",""],"d",0,[]],None,0]',
    '["ok",["=m",["h",9,"object","x",""],"f",0,[],"int"],None,0]',
    '["ok",["f",0,[],"object"],None,0]',
    '["ok",["f",0,[],"int"],None,0]',
    '["ok",["xs","subprocess","CalledProcessError"],None,0]',
    '["ok",["xs","unittest.case","SkipTest"],None,0]',
    '["ok",["x","SystemExit",None,["l",0,[0]],"",7,None],None,0]',
    '["ok",["x","Exception",None,["l",0,[4]],"4",7,None],None,0]',
    '["raise","SystemExit",None,["l",0,[0]],"",7,None]',
    '["raise","KeyboardInterrupt",None,["l",0,[]],"",7,None]',
    '["raise","GeneratorExit",None,["l",0,[]],"",7,None]',
    '["raise","StopIteration",None,["l",0,[4]],"",7,None]',
    '["raise","AssertionError",None,["l",0,[]],"",7,None]',
    '["raise","BaseExceptionGroup",None,["l",0,["m",["l",1,[["x","ValueError",None,["l",2,[]],"",8,None]]]]],"",7,None]',
    '["raise","Exception",["xs","asyncio.exceptions","CancelledError"],["l",0,[]],"",7,None]',
    '["raise","Exception",["xs","concurrent.futures._base","CancelledError"],["l",0,[]],"",7,None]',
    '["raise","Exception",["h",8,"exception","SkipTest",["Exception"]],["l",0,[]],"",7,None]',
    '["raise","UnicodeDecodeError",None,["l",0,["utf-8",["b","x"],0,1,"r"]],"",7,None]',
    '["raise","MemoryError",None,["l",0,[]],"",7,None]',
    '["raise","RecursionError",None,["l",0,[]],"",7,None]',
    '["raise","NameError",None,["l",0,["f"]],"",7,None]',
    '["raise","SyntaxError",None,["l",0,["m",["t",["f",1,1,"t"]]]],"",7,None]',
    '["raise","OSError",None,["l",0,[2,"x","y"]],"",7,None]',
    '["raise","ImportError",None,["l",0,[]],"",7,None]',
    '["raise","BlockingIOError",None,["l",0,[11,"x",5]],"",7,None]',
    '["raise","BrokenPipeError",None,["l",0,[32,"x"]],"",7,None]',
    '["raise","ConnectionError",None,["l",0,[]],"",7,None]',
    '["raise","EOFError",None,["l",0,[]],"",7,None]',
    '["raise","TimeoutError",None,["l",0,[]],"",7,None]',
    '["again",0]',
    '["end",4]',
    '["end",["l",0,[]]]',
    '["ok",["h",1,"generator","g",""],None,0]',
    '["ok",["h",2,"coroutine","g",""],None,0]',
    '["ok",["h",3,"async_generator","g",""],None,0]',
    '["ok",["h",3,"data","g",""],None,0]',
    '["ok",["h",3,"iterator","g",""],None,0]',
    '["ok",["h",3,"awaitable","g",""],None,0]',
    '["ok",["h",3,"caller","int",""],None,0]',
    '["ok",["h",3,"exception","int",["Exception","int","type"]],None,0]',
    '["ok",["h",3,"exception","x",[["h",3,"exception","x",["E"]]]],None,0]',
    '["ok",["@",0],None,0]',
    '["ok",["@",-1],None,0]',
    '["ok",["l",0,[["@",0]]],None,0]',
    '["ok",["t",[["l",0,[["@",0]]],["@",0]]],None,0]',
    '["ok",["d",0,[[["l",1,[]],1]]],None,0]',
    '["ok",["s",0,[["h",5,"object","T",""]]],None,0]',
    '["ok",["d",0,[[["h",5,"object","T",""],4]]],None,0]',
    '["ok",["z",[["h",5,"object","T",""],["h",6,"object","T",""]]],None,0]',
    '["ok",["C",0,[["a",["h",5,"object","T",""]]]],None,0]',
    '["ok",["O",0,[[1,2]]],None,0]',
    '["ok",["e",0,[1,2,3],1],None,0]',
    '["ok",["e",0,[1],-5],None,0]',
    '["ok",["re","("*1900,True,0],None,0]',
    '["ok",["re","(?i)"+"[\\U00000001-\\U0010fff0]"*80,True,2],None,0]',
    '["ok",["re","(?:a{0,60000}){0,60000}"*20,True,0],None,0]',
    '["ok",["re","(a*)*"*380,True,0],None,0]',
    '["ok",["mv","abcd","q"],None,0]',
    '["ok",["mv","abcdefgh","d"],None,0]',
    '["ok",["A",0,[1,2],"i"],None,0]',
    '["ok",["A",0,[],"u"],None,0]',
    '["ok",["Tk","Europe/Berlin"],None,0]',
    '["ok",["Tk","../../etc/passwd"],None,0]',
    '["ok",["nd",[0.0,1.0]],None,0]',
    '["ok",["nd",["x",["l",0,[]]]],None,0]',
    '["ok",["mp",[["a",1]]],None,0]',
    '["ok",["mc",[[["a",4]],[]]],None,0]',
    '["ok",["ml",[4]],None,0]',
    '["ok",["md",[["a",4]]],None,0]',
    '["ok",["ms","4"],None,0]',
    '["ok",["u","0"*32],None,0]',
    '["ok",["P","PurePosixPath","4"],None,0]',
    '["ok",["PP","/proc/self/environ"],None,0]',
    '["ok",["ip","IPv4Network","0.0.0.0/0"],None,0]',
    '["ok",["Tz",["t",[1]*9]],None,0]',
    '["ok",["Tz",[2020,1,1,1,1,1,1,1,1,"x",4]],None,0]',
    '["ok",["To",[["Ts",0,0,0],"x"]],None,0]',
    '["ok",["Td","2020-01-01"],None,0]',
    '["ok",["Ts",10**18,0,0],None,0]',
    '["ok",["q",4,0],None,0]',
    '["ok",["q",["i","0x"+"f"*200000],["i","0x"+"e"*200001]],None,0]',
    '["ok",["D","1e999999999"],None,0]',
    '["ok",["D","sNaN"],None,0]',
    '["ok",["D","NaN4"],None,0]',
    '["ok",["D","4"+"0"*3000000],None,0]',
    '["ok",["c",4,0],None,0]',
    '["ok",["c","4",0],None,0]',
    '["ok",["r",0,["i","0x"+"f"*100],1],None,0]',
    '["ok",["r",["h",1,"object","x",""],1,1],None,0]',
    '["ok",["/",["h",1,"object","x",""],1,1],None,0]',
    '["ok",["."],None,0]',
    '["ok",["g",[4,4]],None,0]',
    '["ok",["vk",["l",0,[1]]],None,0]',
    '["ok",["vi",["l",0,[["t",[1,2]]]]],None,0]',
    '["ok",["vv",["l",0,[4]]],None,0]',
    '["ok",["vk",["d",0,[[1,2]]]],None,0]',
    '["ok",["N=",0,[["__class__",4]]],None,0]',
    '["ok",["N=",0,[["_x",4]]],None,0]',
    '["ok",["y","object"],None,0]',
    '["ok",["y","exec"],None,0]',
    '["ok",["y","type"],None,0]',
    '["ok",["y","NotImplemented"],None,0]',
    '["ok",["N","ListNode",[1]],None,0]',
    '["ok",["k",0],None,0]',
    '["ok",["o",0],None,0]',
    '["ok",["o",3],None,0]',
    '["ok",float("nan"),None,0]',
    '["ok",float("inf"),None,0]',
    '["ok",True,None,0]',
    '["ok",4.0000000001,None,0]',
    '["ok","4",None,0]',
    '["ok",{"a":1},None,0]',
    '["ok"]',
    "[]",
    "{}",
    "5",
    "None",
    '"ok"',
    '["ok",None,[[0,[4]]],0]',
    '["ok",None,[[0,[]]],0]',
    '["ok",None,[[0,[[1,2]]],[1,[]],[2,[]]],16384]',
    '["ok",None,[[99,[]]],0]',
    '["ok",None,None,-1]',
    '["ok",None,None,10**30]',
    '["printed","x"]',
    '["printed",4]',
    '["complained","x"]',
    '["touch",0,"call",["t",[["l",0,[]],["d",1,[]]]]]',
    '["touch",0,"get",["l",0,["__globals__"]]]',
    '["touch",0,"str",["l",0,[]]]',
    '["touch",99,"get",["l",0,["a"]]]',
    '["error",["x",0,"Exception",["l",0,[]]]]',
    'b"\\xff\\xfe"',
    'b"["*3000000',
    'b"{"+b"\\"a\\":"*1000000',
    'b"1"*5000',
    'b"NaN"',
    'b"1e999"',
    'b"\\"\\\\ud800\\""',
    '["ok",(lambda x:[x:=["t",[x]] for _ in range(102)][-1])(1),None,0]',
    '["ok",["l",0,["x"*30000000]],None,0]',
    '["ok",["l",0,[0]*15000000],None,0]',
    '["ok",["s",0,[["i",hex(k*((1<<61)-1))] for k in range(200000)]],None,0]',
    '["ok",["d",0,[[["i",hex(k*((1<<61)-1))],0] for k in range(60000)]],None,0]',
    '["ok",["d",0,[[["t",[k*((1<<61)-1)]],0] for k in range(0)]],None,0]',
    'send(b"")',
    "os._exit(0)",
    "(os.close(FD),1)[0:0] or None",
    'os.write(FD,b"\\xff\\xff\\xff\\xff") and None',
    'os.write(FD,b"\\x00") and None',
    '[send(["ok",None,None,0]) for _ in range(2000)] and None',
    '[send(["printed","x"*1000000]) for _ in range(60)] and ["ok",4.5,None,0]',
    '__import__("time").sleep(100)',
    "os.kill(os.getpid(),19)",
    "os.kill(os.getpid(),9)",
    "os.kill(1,9)",
    "os.kill(-1,9)",
)
"""Python expressions, evaluated in the program; `q` is the request."""
_REFERENCES: Final = (
    {"asserts": {"code": ["assert f(2) == 40961"]}},
    {"asserts": {"code": ["assert abs(f(2) - 40961) < 1e-6"]}},
    {"asserts": {"code": ["import math\nassert math.isclose(f(2), 40961)"]}},
    {"asserts": {"code": ["r = f(2)\nassert len(r) == 3\nassert list(r) == [1, 2, 40961]"]}},
    {
        "asserts": {
            "code": ["def check(candidate):\n    assert candidate([3]) == {'a': 40961}\ncheck(f)"]
        }
    },
    {"asserts": {"code": ["x = [2]\ny = f(x)\nassert y == 40961 and x == [2]"]}},
    {
        "asserts": {
            "code": [
                "import unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n"
                "        self.assertEqual(f(2), 40961)\n        self.assertAlmostEqual(f(2), 40961)\n"
            ]
        }
    },
    {
        "asserts": {
            "code": [
                "try:\n    f(2)\n    assert False\nexcept LookupError as error:\n"
                "    assert error.args[0] == 40961"
            ]
        }
    },
    {"calls": {"function": "f", "cases": [{"args": [2], "expected": 40961}]}},
    {
        "calls": {
            "function": "f",
            "values": "python",
            "cases": [{"args": ["2"], "expected": "{40961: [1.5, (2,)]}"}],
        }
    },
)


def wire_case(rng: random.Random) -> Case:
    """One answer under one kind of tests."""
    return Case(
        pipeline="code.python",
        kind="wire",
        response=f"{_TAKES_OVER}loop(lambda q: {rng.choice(_ANSWERS)})\n",
        reference=rng.choice(_REFERENCES),
        expected=Expected.WRONG,
        settings={"cpu_s": 2.0, "memory_bytes": 256 << 20, "extraction": "raw"},
    )
