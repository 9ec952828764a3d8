import sys

data = iter(sys.stdin.read().split())
n = int(next(data))
stands = [1 - float(next(data)) for _ in range(n)]
beside: list[list[int]] = [[] for _ in range(n)]
for _ in range(n - 1):
    u, v = int(next(data)), int(next(data))
    beside[u].append(v)
    beside[v].append(u)
parent = [-1] * n
order = [0]
for u in order:
    for v in beside[u]:
        if v != parent[u]:
            parent[v] = u
            order.append(v)
below = [0.0] * n
expected = 0.0
for u in range(n):
    expected += stands[u]
    if parent[u] >= 0:
        below[parent[u]] += stands[u]
        expected -= stands[u] * stands[parent[u]]
for _ in range(int(next(data))):
    u, chance = int(next(data)), 1 - float(next(data))
    change = chance - stands[u]
    around = below[u] + (stands[parent[u]] if parent[u] >= 0 else 0)
    expected += change * (1 - around)
    stands[u] = chance
    print(f"{expected:.5f}")
