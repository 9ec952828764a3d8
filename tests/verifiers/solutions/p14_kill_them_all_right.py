import sys

data = iter(sys.stdin.read().split())
for _ in range(int(next(data))):
    n, r = int(next(data)), int(next(data))
    monsters = sorted({int(next(data)) for _ in range(n)}, reverse=True)
    print(sum(place - shots * r > 0 for shots, place in enumerate(monsters)))
