from collections import Counter

n = int(input())
before = Counter(input() for _ in range(n))
now = Counter(input() for _ in range(n))
print((before - now).total())
