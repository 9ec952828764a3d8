#include <bits/stdc++.h>
using namespace std;

int main() {
    long t1, t2, x1, x2, t0;
    cin >> t1 >> t2 >> x1 >> x2 >> t0;
    long cold = t0 - t1, hot = t2 - t0;
    if (!cold || !hot) {
        cout << (hot || !cold ? x1 : 0) << " " << (cold || !hot ? x2 : 0) << endl;
        return 0;
    }
    long b1 = 0, b2 = x2;
    auto excess = [&](long y1, long y2) { return (__int128)(y2 * hot - y1 * cold); };
    for (long y1 = 1; y1 <= x1; ++y1) {
        long y2 = y1 * cold / hot;
        if (y2 > x2) break;
        if (excess(y1, y2) * (b1 + b2) <= excess(b1, b2) * (y1 + y2)) b1 = y1, b2 = y2;
    }
    cout << b1 << " " << b2 << endl;
}
