from itertools import accumulate, groupby

n, size = map(int, input().split())
counts = [len(list(group)) for _, group in groupby(sorted(map(int, input().split())))]
kept = 8 * size // n
sums = [0, *accumulate(counts)]
width = min(kept, len(counts))
print(n - max(sums[i + width] - sums[i] for i in range(len(counts) - width + 1)))
