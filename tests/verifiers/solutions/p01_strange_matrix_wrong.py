import sys

data = iter(map(int, sys.stdin.buffer.read().split()))
n, m, p = next(data), next(data), next(data)
rows: dict[int, dict[int, int]] = {}
for _ in range(p):
    row = rows.setdefault(next(data), {})
    j = next(data)
    row[j] = row.get(j, j) + 1
for i in range(1, n + 1):
    row = rows.get(i, {})
    open_way = all(value <= row.get(j + 1, j + 1) for j, value in row.items() if j < m)
    print(row.get(m, m) - row.get(1, 1))
