#include <bits/stdc++.h>
using namespace std;

int main() {
    const long mod = 998244353;
    const int top = 200;
    int n;
    cin >> n;
    vector<long> waits(top + 2), safe(top + 2);
    for (int i = 0; i < n; ++i) {
        int value;
        cin >> value;
        int from = value < 0 ? 1 : value, to = value < 0 ? top : value;
        vector<long> w(top + 2), s(top + 2), lower(top + 2), higher(top + 2);
        for (int v = 1; v <= top; ++v) lower[v] = (lower[v - 1] + waits[v - 1] + safe[v - 1]) % mod;
        for (int v = top - 1; v > 0; --v) higher[v] = (higher[v + 1] + safe[v + 1]) % mod;
        for (int v = from; v <= to; ++v) {
            w[v] = i ? lower[v] : 1;
            s[v] = i ? (waits[v] + safe[v] + higher[v]) % mod : 0;
        }
        waits = w, safe = s;
    }
    cout << accumulate(safe.begin(), safe.end(), 0L) % mod << endl;
}
