#include <bits/stdc++.h>
using namespace std;

int main() {
    long n, size;
    cin >> n >> size;
    map<int, int> count;
    for (int i = 0, a; i < n; ++i) cin >> a, ++count[a];
    vector<int> sums{0};
    for (auto& [value, c] : count) sums.push_back(sums.back() + c);
    int distinct = count.size();
    int width = min<long>(distinct, 1L << min(8 * size / n, 20L));
    int best = 0;
    for (int i = 0; i + width <= distinct; ++i) best = max(best, sums[i + width] - sums[i]);
    cout << n - best << endl;
}
