MOD = 1_000_000_007
TOP = 200
input()
values = list(map(int, input().split()))


def allowed(value: int) -> range:
    return range(1, TOP + 1) if value < 0 else range(value, value + 1)


waits = [0] * (TOP + 2)
safe = [0] * (TOP + 2)
for start in allowed(values[0]):
    waits[start] = 1
for value in values[1:]:
    lower = [0] * (TOP + 2)
    for level in range(1, TOP + 1):
        lower[level] = (lower[level - 1] + waits[level - 1] + safe[level - 1]) % MOD
    higher = [0] * (TOP + 2)
    for level in range(TOP - 1, 0, -1):
        higher[level] = (higher[level + 1] + safe[level + 1]) % MOD
    new_waits = [0] * (TOP + 2)
    new_safe = [0] * (TOP + 2)
    for level in allowed(value):
        new_waits[level] = lower[level]
        new_safe[level] = (waits[level] + safe[level] + higher[level]) % MOD
    waits, safe = new_waits, new_safe
print(sum(safe) % MOD)
