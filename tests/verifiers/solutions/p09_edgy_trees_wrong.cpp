#include <bits/stdc++.h>
using namespace std;

int main() {
    const long mod = 1000000007;
    int n, k;
    cin >> n >> k;
    vector<int> leader(n), size(n);
    iota(leader.begin(), leader.end(), 0);
    function<int(int)> find = [&](int v) { return leader[v] == v ? v : leader[v] = find(leader[v]); };
    for (int i = 1, u, v, black; i < n; ++i) {
        cin >> u >> v >> black;
        if (!black) leader[find(u - 1)] = find(v - 1);
    }
    for (int v = 0; v < n; ++v) ++size[find(v)];
    auto power = [&](long base) {
        long result = 1;
        for (int i = 1; i < k; ++i) result = result * base % mod;
        return result;
    };
    long good = power(n);
    for (int s : size) good += mod - power(s);
    cout << good % mod << endl;
}
