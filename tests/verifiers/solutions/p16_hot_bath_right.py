t1, t2, x1, x2, t0 = map(int, input().split())
cold, hot = t0 - t1, t2 - t0
if not cold and not hot:
    print(x1, x2)
elif not cold:
    print(x1, 0)
elif not hot:
    print(0, x2)
else:
    best = (0, x2)
    over, flow = hot * x2, x2
    for y1 in range(1, x1 + 1):
        y2 = -(-y1 * cold // hot)
        if y2 > x2:
            break
        excess = y2 * hot - y1 * cold
        if excess * flow <= over * (y1 + y2):
            best, over, flow = (y1, y2), excess, y1 + y2
    print(*best)
