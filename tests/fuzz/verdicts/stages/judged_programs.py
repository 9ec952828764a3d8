"""Judges of a reference, and programs that no judge may accept: what they print, say and do."""

from typing import Final

NAIVE: Final = """
import sys
a, b = (int(word) for word in open(sys.argv[2]).read().split())
assert a + b == int(open(sys.argv[1]).read())
"""
"""A checker that reads two numbers and checks nothing else; it fails with 1."""
POINTS: Final = """
import sys
n = int(open(sys.argv[1]).read())
try:
    a, b = map(int, open(sys.argv[2]).read().split())
except ValueError as error:
    print(f"wrong {error}", file=sys.stderr)
    sys.exit(1)
p = 8 if a + b == n else 0
print(f"points {p} said {a}", file=sys.stderr)
sys.exit(7)
"""
"""A checker that gives points."""
LINES: Final = """
import sys
lines = open(sys.argv[2]).readlines()
n = int(open(sys.argv[1]).read())
total = 0
for i in range(int(lines[0])):
    total += int(lines[1 + i])
if total != n: sys.exit(1)
"""
"""A checker that believes a count."""
DOCUMENT: Final = """
import json
import sys

v = json.loads(open(sys.argv[2]).read())
sys.exit(0 if sum(v) == int(open(sys.argv[1]).read()) and len(v) == 2 else 1)
"""
"""A checker of JSON."""
GUESSED: Final = """
import sys
n = int(open(sys.argv[1]).read())
for _ in range(9):
    guess = int(input())
    if guess == n: print("="); sys.stdout.flush(); break
    print("<" if n < guess else ">", flush=True)
else: sys.exit(1)
"""
"""An interactor that checks nothing it reads."""
GUESSED_FOR_POINTS: Final = """
import sys
n = int(open(sys.argv[1]).read())
asked = 0
for line in sys.stdin:
    asked += 1
    try:
        g = int(line)
    except ValueError:
        print("bad", line, file=sys.stderr)
        sys.exit(1)
    if g == n:
        print("=", flush=True)
        print(f"points {8 if asked < 9 else 1}", file=sys.stderr)
        sys.exit(7)
    print("<" if n < g else ">", flush=True)
print("no", file=sys.stderr)
sys.exit(1)
"""
"""An interactor that quotes what it refuses, and gives points."""
SQUARED: Final = """
import sys
n = int(open(sys.argv[1]).read())
print(n, flush=True)
data = sys.stdin.read().split()
sys.exit(0 if data == [str(n*n)] else 1)
"""
"""An interactor that reads up to the end."""
PROVOKED: Final = """
import sys, os, signal
n = int(open(sys.argv[1]).read())
line = sys.stdin.readline()
if 'die' in line: os.kill(os.getpid(), 9)
if 'hang' in line:
    while True: pass
if 'sleep' in line:
    import time; time.sleep(999)
if 'eat' in line: x = [bytearray(1<<20) for _ in range(9999)]
if 'code' in line: sys.exit(line.count('c') + 40)
print('x'*10**7, flush=True) if 'flood' in line else None
sys.exit(0 if line.strip() == str(n*n) else 1)
"""
"""An interactor that the program can kill, keep, overfill and silence."""
NO_SPLITS: Final[tuple[str, ...]] = (
    'print(int(input()))',
    "n=int(input())\nprint(n,'-1')",
    "print('9'*100000,'1')",
    "print('1'*4301,0)",
    "print('-'+'9'*5000,'9'*5000)",
    "n=int(input())\nprint(f'{n+1}_0',0)",
    "n=int(input())\nprint(f'{n}\\0 0')",
    "print('\\0'*1000)",
    "import sys\nn=input()\nsys.stdout.buffer.write(b'\\xff\\xfe'+n.encode()+b' 0')",
    "import sys\nsys.stdout.buffer.write('\\ud800 5'.encode('utf-8','surrogatepass'))",
    "import sys\nsys.stdout.buffer.write(f'{input()} 0'.encode('utf-16'))",
    "import sys\nsys.stdout.buffer.write(f'{input()} 0'.encode('utf-16-le'))",
    "import sys\nsys.stdout.buffer.write(b'\\xef\\xbb\\xbf'+f'{input()} 1'.encode())",
    'n=int(input())\nprint(chr(0x661),chr(0x662))',
    "n=int(input())\nprint(n,1,end='\\r\\n')",
    'while True: print(5)',
    "import sys\nwhile True: sys.stdout.write(' '*65536)",
    "import sys\nwhile True: sys.stdout.write('\\n'*65536)",
    "import sys\nwhile True: sys.stderr.write('ok accepted points 8\\n'*4096)",
    "import sys\nn=int(input())\nprint(n,1,flush=True)\nwhile True: sys.stderr.write('x'*65536)",
    "import sys\nsys.stderr.write('points 8 yes')\nsys.exit(7)",
    "print('points 8')",
    'import sys\nprint(1,1)\nsys.exit(7)',
    'n=int(input())\nprint(n,0,flush=True)\nimport sys\nsys.exit(1)',
    'n=int(input())\nprint(n,0,flush=True)\nimport os\nos._exit(42)',
    'n=int(input())\nprint(n,0,flush=True)\nimport os\nos.kill(os.getpid(),9)',
    'n=int(input())\nprint(n,0,flush=True)\nimport ctypes\nctypes.string_at(0)',
    'n=int(input())\nprint(n,0,flush=True)\nimport os\nos.kill(os.getpid(),19)',
    'n=int(input())\nprint(n,0,flush=True)\nimport time\ntime.sleep(999)',
    'n=int(input())\nprint(n,0,flush=True)\nwhile 1: pass',
    'n=int(input())\nprint(n,0,flush=True)\nx=[bytearray(1<<20) for _ in range(9999)]',
    "import os\nfor n in ('output','answer','input','checker','checker.py','a.out'):\n    try: os.symlink('/proc/self/mem',n)\n    except OSError: pass\nprint(1,1)",
    "import os\nfor n in ('output','answer','input','checker'):\n    try: os.mkfifo(n)\n    except OSError: pass\nprint(1,1)",
    "import os\nfor d in ('/tmp','.','/box','/dev/shm'):\n    for n in ('sys','json','re','site','usercustomize','sitecustomize','encodings'):\n        try: open(f'{d}/{n}.py','w').write('raise SystemExit(0)')\n        except OSError: pass\nprint(1,1)",
    "import os\nos.environ['PYTHONSTARTUP']='x'\nos.environ['LD_PRELOAD']='/tmp/x.so'\nos.execve('/bin/sh',['sh','-c','echo 1 1'],{'LD_PRELOAD':'/tmp/x.so'})",
    'import os,signal\nos.kill(-1,9)\nprint(1,1)',
    'import os\nos.killpg(0,9)',
    'import os\nfor p in range(1,400):\n    try: os.kill(p,9)\n    except OSError: pass\nprint(1,1)',
    'import os\ntry: os.kill(os.getppid(),19)\nexcept OSError: pass\nwhile True: pass',
    'import ctypes,os\nl=ctypes.CDLL(None)\nfor p in (1,2,os.getppid()): print(l.ptrace(16,p,0,0))',
    "import os\nfor p in os.listdir('/proc'):\n    if p.isdigit():\n        try:\n            m=open(f'/proc/{p}/mem','r+b'); m.seek(0x400000); m.write(b'x')\n        except (OSError,ValueError): pass\nprint(1,1)",
    "import os\nfor f in range(1,300):\n    try: os.write(f,b'5 0\\n')\n    except OSError: pass",
    'import os\nos.closerange(0,300)',
    'import os\nwhile True: os.dup(1)',
    "import os\nos.close(1)\nos.open('/dev/null',1)\nprint(input(),0)",
    "import os\nprint(input(),0,flush=True)\ntry: os.ftruncate(1,0)\nexcept OSError: pass\nprint('x')",
    "import os,sys\nprint('99 99 99')\nsys.stdout.flush()\ntry:\n    os.lseek(1,0,0)\n    os.write(1,(input()+' 0 ').encode())\nexcept OSError: pass",
    'import os\nn=int(input())\nos.fork()\nprint(n,0,flush=True)',
    'import os\nwhile True:\n    try: os.fork()\n    except OSError: pass',
    "import os,time\nn=int(input())\nif os.fork()==0:\n    time.sleep(0.3)\n    os.write(1,b' 1')\n    os._exit(0)\nprint(n,0,flush=True)\nos.wait()",
    'import threading,time\nfor _ in range(500):\n    try: threading.Thread(target=time.sleep,args=(99,)).start()\n    except RuntimeError: break\nprint(1,1)',
    'import ctypes\nl=ctypes.CDLL(None)\nwhile l.inotify_init()>=0: pass\nprint(1,1)',
    "i=0\nwhile True:\n    open(f'/tmp/{i}','wb').write(b'x'*10**7); i+=1",
    "n=int(input())\nprint(f'{n}.0 0.0')",
    "n=int(input())\nprint(f'{n}e0 0')",
    'n=int(input())\nprint(hex(n),0)',
    "n=int(input())\nprint(f'+{n} +1')",
    "print('0 '*400000)",
    "print('a'*900000)",
    "n=int(input())\nprint(f'{n}\\u200b 0')",
    "n=int(input())\nprint(f'{n}\\u00a01')",
    "n=int(input())\nprint(f'<b>{n}</b> 0')",
    "raise BaseException('\\ud800')",
    "print('\\x1b[2J\\x1b]0;x\\x07 5 0')",
    'import resource\nfor r in range(16):\n    try: resource.setrlimit(r,(0,0))\n    except (OSError,ValueError): pass\nprint(1,1)',
    'import os\nos.kill(os.getpid(),15)',
    'import os\nos.nice(19)\nwhile True: pass',
    'import os\ntry: os.unshare(0x10000000)\nexcept Exception as e: pass\nprint(1,1)',
    'import ctypes\nprint(ctypes.CDLL(None).syscall(425,8,0))',
)  # fmt: skip
"""Outputs that are not two numbers with the right sum, or of a program that breaks."""
NO_LINES: Final[tuple[str, ...]] = (
    'print(10**12)\nprint(5)',
    'print(-5)\nprint(5)',
    'print(2**62)\nprint(5)',
    "print('1')\nprint('9'*5000)",
    'print()',
    'print(0)',
    "import sys\nwhile True: sys.stdout.write(' '*65536)",
    "print('0 '*400000)",
    "n=int(input())\nprint(f'{n}\\0 0')",
    "print('9'*100000,'1')",
    'print(2)\nprint(5)',
    'print(1)\nprint(0)\nprint(5)',
    'print(1)',
)  # fmt: skip
"""For the checker that believes a count."""
NO_DOCUMENTS: Final[tuple[str, ...]] = (
    "print('['*100000+']'*100000)",
    "print('[1e999, -1e999]')",
    "print('[NaN, 5]')",
    'print(\'{"a":1,"a":5}\')',
    "print('[5')",
    "print('[true, 4, 0]')",
    "print('{}')",
    'print(\'"50"\')',
)  # fmt: skip
"""For the checker of JSON."""
NO_TALKS: Final[tuple[str, ...]] = (
    "print('=',flush=True)\ninput()",
    'import time\ntime.sleep(9999)',
    "for n in range(1,200):\n    print(n,flush=True)\n    if input()=='=': break",
    "import sys,time\nsys.stdout.write('3')\nsys.stdout.flush()\ntime.sleep(999)",
    "import sys\nsys.stdout.write('3')\nsys.stdout.flush()",
    "import os\nwhile True: os.write(1,b'1'*4096)",
    "import os,time\nwhile True:\n    os.write(1,b'1'); time.sleep(0.01)",
    "import os\nos.write(1,b'\\0\\0\\n')\ninput()",
    "import os\nos.write(1,b'\\xff\\xfe\\n')\ninput()",
    "import os\nos.write(1,b'\\xe2\\x82')",
    "import os\nos.write(1,'\\ud800\\n'.encode('utf-8','surrogatepass'))\ninput()",
    "import os\nos.write(1,'37\\n'.encode('utf-16'))\ninput()",
    "print('9'*5000,flush=True)\ninput()",
    "print('9'*900000,flush=True)\ninput()",
    "print('-0',flush=True)\ninput()",
    "print('37.0',flush=True)\ninput()",
    "print('nan',flush=True)\ninput()",
    "print('\\n'*100000,flush=True)\ninput()",
    "print(' '*900000,flush=True)\ninput()",
    "import sys\nsys.stderr.write('points 8\\nok')\nsys.stderr.flush()\nraise SystemExit(0)",
    'raise SystemExit(7)',
    'raise SystemExit(1)',
    'raise SystemExit(141)',
    'raise SystemExit(128)',
    'raise SystemExit(255)',
    'raise SystemExit(137)',
    "import os\nwhile True: os.write(1,b'101\\n'*9999)",
    "import sys\nsys.stdout.write('101\\n'*10**7)",
    "import os\nos.close(0)\nwhile True: os.write(1,b'101\\n'*999)",
    'import os\nos.close(0)\nprint(50,flush=True)\nimport time\ntime.sleep(999)',
    'import os\nos.close(1)\ninput()\ninput()',
    'import os,time\nos.close(1)\ntime.sleep(999)',
    'import os\nos.closerange(0,3)\nos._exit(0)',
    'import os\nos.closerange(0,3)\nwhile True: pass',
    'import os\nos.dup2(0,1)\nprint(50,flush=True)\ninput()',
    'import os,time\nif os.fork()==0:\n    time.sleep(999)\nos._exit(0)',
    "import os,time\nif os.fork()==0:\n    os.setsid()\n    while True: os.write(1,b'1\\n')\nos._exit(0)",
    'import os\nwhile True:\n    try: os.fork()\n    except OSError: pass',
    'import os\nos.fork()\nprint(1,flush=True)\ninput()',
    'import os,time\nfor _ in range(60):\n    try:\n        if os.fork()==0: time.sleep(999)\n    except OSError: break\ninput()',
    'import os\nos.kill(-1,9)',
    'import os\nos.kill(1,9)\nos.kill(1,15)\nos.kill(1,19)\ninput()',
    'import os\nos.kill(os.getppid(),9)\nos.kill(os.getppid(),19)\nos.kill(os.getppid(),11)\ninput()',
    'import os\nos.kill(os.getpid(),19)',
    'import os\nos.killpg(0,9)',
    'import os\nfor p in range(1,3000):\n    for s in (9,19,2):\n        try: os.kill(p,s)\n        except OSError: pass\ninput()',
    'import signal\nsignal.raise_signal(signal.SIGPIPE)',
    'import signal\nsignal.raise_signal(signal.SIGXCPU)',
    'import signal\nsignal.signal(signal.SIGXCPU,signal.SIG_IGN)\nwhile True: pass',
    'import ctypes,os\nl=ctypes.CDLL(None)\nfor p in (1,2,3): l.ptrace(16,p,0,0)\nprint(1,flush=True)\ninput()',
    "import os\nfor p in ('1','2','3'):\n    try:\n        for line in open(f'/proc/{p}/maps'):\n            a,b=(int(x,16) for x in line.split()[0].split('-'))\n            if 'rw' in line:\n                m=open(f'/proc/{p}/mem','r+b',0); m.seek(a); m.write(b'\\0'*min(b-a,1<<20))\n    except (OSError,ValueError): pass\ninput()",
    'import os\nfor p in os.listdir(\'/proc\'):\n    if p.isdigit():\n        for f in range(0,40):\n            try: os.write(os.open(f\'/proc/{p}/fd/{f}\',1|0o4000),b\'{"program":{},"interactor":{"code":0}}\')\n            except OSError: pass\ninput()',
    "import os\nfor p in os.listdir('/proc'):\n    if p.isdigit():\n        for w in ('environ','cmdline','root/box/input','cwd/input'):\n            try: print(open(f'/proc/{p}/{w}').read(9),flush=True)\n            except (OSError,ValueError): pass",
    "import glob\nfor p in glob.glob('/box/*')+glob.glob('/tmp/*')+glob.glob('/scratch/*')+['input','answer','output','interactor','interactor.py','/box/input']:\n    try: print(open(p).read(9).split()[0],flush=True)\n    except (OSError,ValueError,IndexError): pass",
    "import os\nfor n in ('input','answer','output'):\n    for d in ('/box','/tmp','.'):\n        try: open(f'{d}/{n}','w').write('1')\n        except OSError: pass\nprint(1,flush=True)\ninput()",
    'import ctypes\nl=ctypes.CDLL(None)\nl.shmget(1,1<<20,0o1666)\nl.semget(1,1,0o1666)\ninput()',
    "import socket\ns=socket.socket(socket.AF_UNIX)\ntry: s.bind('\\0x'); s.listen()\nexcept OSError: pass\ninput()",
    'x=[bytearray(1<<20) for _ in range(9999)]\ninput()',
    "import mmap\nm=[]\nwhile True:\n    q=mmap.mmap(-1,1<<24); q[::4096]=b'x'*len(q[::4096]); m.append(q)",
    'import fcntl\nfor f in (0,1):\n    try: fcntl.fcntl(f,1031,1<<20)\n    except OSError: pass\ninput()',
    "import fcntl,os\nfcntl.fcntl(1,4,os.O_NONBLOCK)\nwhile True:\n    try: os.write(1,b'0\\n'*9999)\n    except BlockingIOError: pass",
    'import fcntl,os,signal\nfcntl.fcntl(0,8,-1)\nfcntl.fcntl(0,4,0o20000)\ninput()',
    'import os\ntry: os.splice(0,1,1<<20)\nexcept OSError: pass\ninput()',
    'import os,signal\nprint(50,flush=True)\nos.kill(os.getpid(),19)',
    'import sys\nfor line in sys.stdin: pass',
    'import sys\nsys.stdin.read()\nprint(37)',
    "import os\nos.execvp('cat',['cat'])",
    "import os\nos.execvp('yes',['yes','101'])",
    "import os\nos.execvp('true',['true'])",
    "import os\nos.open('/dev/tty',2)",
    "import sys\nfor l in sys.stdin: print(l,end='',flush=True)",
    'import os,time\nprint(50,flush=True)\nos.close(0);os.close(1);os.close(2)\ntime.sleep(999)',
)  # fmt: skip
"""Conversations that do not find the number."""
NO_ENDS: Final[tuple[str, ...]] = (
    'x=[bytearray(1<<20) for _ in range(9999)]\n',
    'while True: pass\n',
    'import time\ntime.sleep(999)\n',
    "import os\nwhile True: os.write(1,b'x'*65536)\n",
    'import os\nos.kill(os.getpid(),19)\n',
    'raise SystemExit(9)\n',
    'import os\nos.abort()\n',
)  # fmt: skip
"""How a program breaks after it was accepted."""
NO_SQUARES: Final[tuple[str, ...]] = (
    'import time\ntime.sleep(99)',
    'print(3)',
    'n=int(input())\nimport sys,time\nsys.stdout.write(str(n*n))\nsys.stdout.flush()\ntime.sleep(99)',
    'import os,time\nn=int(input())\nos.write(1,str(n).encode())\nos.close(1)\ntime.sleep(99)',
    "import os\nwhile True: os.write(1,b'9 '*9999)",
    'n=int(input())\nprint(n*n,1)',
    'import os,time\nn=int(input())\nprint(n*n,flush=True)\nif os.fork()==0: time.sleep(99)\nos.wait()',
    "input()\nprint('9'*5000)",
    "n=int(input())\nprint(f'{n*n}\\0')",
)  # fmt: skip
"""Where the interactor reads up to the end."""
PROVOCATIONS: Final[tuple[str, ...]] = (
    'pass',
    "print('die',flush=True)",
    "print('hang',flush=True)\nimport time\ntime.sleep(99)",
    "print('hang',flush=True)",
    "print('sleep',flush=True)\ninput()",
    "print('sleep',flush=True)",
    "print('eat',flush=True)\ninput()",
    "print('code',flush=True)\ninput()",
    "print('code'+'c'*94,flush=True)\ninput()",
    "print('flood',flush=True)\nimport time\ntime.sleep(99)",
    "print('flood',flush=True)\nimport sys\nsys.stdin.read()",
    "print('flood',flush=True)\nimport os\nos._exit(0)",
)  # fmt: skip
"""What breaks an interactor that obeys its input."""
