#include <bits/stdc++.h>
using namespace std;

int main() {
    int t;
    cin >> t;
    while (t--) {
        long a, b, q;
        cin >> a >> b >> q;
        long period = a * b;
        vector<long> differ{0};
        for (long x = 0; x < period; ++x) differ.push_back(differ.back() + (x % a % b != x % b % a));
        auto below = [&](long x) { return x / period * differ[period] + differ[x % period]; };
        while (q--) {
            long l, r;
            cin >> l >> r;
            cout << (int)(below(r + 1) - below(l)) << " ";
        }
        cout << "\n";
    }
}
