from itertools import accumulate

for _ in range(int(input())):
    a, b, q = map(int, input().split())
    period = a * b
    differ = [0, *accumulate(int(x % a % b != x % b % a) for x in range(period))]
    answers = []
    for _ in range(q):
        low, high = map(int, input().split())
        upto_high = (high + 1) // period * differ[-1] + differ[high % period]
        upto_low = low // period * differ[-1] + differ[low % period]
        answers.append(upto_high - upto_low)
    print(*answers)
