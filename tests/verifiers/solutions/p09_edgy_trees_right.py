import sys

MOD = 1_000_000_007
data = iter(map(int, sys.stdin.buffer.read().split()))
n, k = next(data), next(data)
leader = list(range(n + 1))


def find(vertex: int) -> int:
    while leader[vertex] != vertex:
        leader[vertex] = leader[leader[vertex]]
        vertex = leader[vertex]
    return vertex


for _ in range(n - 1):
    u, v, black = next(data), next(data), next(data)
    if not black:
        leader[find(u)] = find(v)
sizes: dict[int, int] = {}
for vertex in range(1, n + 1):
    sizes[find(vertex)] = sizes.get(find(vertex), 0) + 1
print((pow(n, k, MOD) - sum(pow(size, k, MOD) for size in sizes.values())) % MOD)
