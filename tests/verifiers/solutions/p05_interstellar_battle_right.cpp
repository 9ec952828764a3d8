#include <bits/stdc++.h>
using namespace std;

int main() {
    int n, q;
    cin >> n;
    vector<double> stands(n), below(n);
    for (auto& s : stands) cin >> s, s = 1 - s;
    vector<vector<int>> beside(n);
    for (int i = 1, u, v; i < n; ++i) cin >> u >> v, beside[u].push_back(v), beside[v].push_back(u);
    vector<int> parent(n, -1), order{0};
    double expected = 0;
    for (int i = 0; i < n; ++i) {
        int u = order[i];
        expected += stands[u];
        for (int v : beside[u])
            if (v != parent[u]) {
                parent[v] = u;
                order.push_back(v);
                below[u] += stands[v];
                expected -= stands[u] * stands[v];
            }
    }
    cin >> q;
    while (q--) {
        int u;
        double chance;
        cin >> u >> chance;
        chance = 1 - chance;
        double change = chance - stands[u];
        double around = below[u] + (parent[u] >= 0 ? stands[parent[u]] : 0);
        expected += change * (1 - around);
        if (parent[u] >= 0) below[parent[u]] += change;
        stands[u] = chance;
        printf("%.5f\n", expected);
    }
}
