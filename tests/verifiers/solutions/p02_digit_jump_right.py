import sys

s = sys.stdin.readline().strip()
places: dict[str, list[int]] = {}
for index, digit in enumerate(s):
    places.setdefault(digit, []).append(index)
jumps = {0: 0}
front = [0]
while len(s) - 1 not in jumps:
    following = []
    for index in front:
        for other in [index - 1, index + 1, *places.pop(s[index], [])]:
            if 0 <= other < len(s) and other not in jumps:
                jumps[other] = jumps[index] + 1
                following.append(other)
    front = following
print(jumps[len(s) - 1])
