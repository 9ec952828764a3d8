import sys
from bisect import bisect_left

data = list(map(int, sys.stdin.buffer.read().split()))
values = data[1:]
answer = 0
for bit in range(26):
    half, whole = 1 << bit, 2 << bit
    low = sorted(value % whole for value in values)
    pairs = 0
    for index, value in enumerate(low):
        for start, end in ((half, whole), (whole + half, 2 * whole)):
            left = bisect_left(low, start - value, index)
            pairs += bisect_left(low, end - value, index) - left
    if pairs % 2:
        answer |= half
print(answer)
