#include <bits/stdc++.h>
using namespace std;

int main() {
    int q;
    cin >> q;
    while (q--) {
        long n, r;
        cin >> n >> r;
        set<long, greater<>> monsters;
        for (long i = 0, x; i < n; ++i) cin >> x, monsters.insert(x);
        long shots = 0;
        for (long x : monsters) shots += x - shots * r >= 0;
        cout << shots << "\n";
    }
}
