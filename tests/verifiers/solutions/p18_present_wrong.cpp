#include <bits/stdc++.h>
using namespace std;

int main() {
    int n;
    scanf("%d", &n);
    vector<int> a(n);
    for (auto& x : a) scanf("%d", &x);
    int answer = 0;
    for (int bit = 0; bit < 3; ++bit) {
        long half = 1L << bit, whole = 2 * half;
        vector<long> low;
        for (int x : a) low.push_back(x % whole);
        sort(low.begin(), low.end());
        auto below = [&](long bound) {
            long pairs = 0;
            for (int i = 0, j = n; i < n; ++i) {
                while (j > 0 && low[i] + low[j - 1] >= bound) --j;
                pairs += j > i ? j - 1 : j;
            }
            return pairs / 2;
        };
        long pairs = below(whole) - below(half) + below(2 * whole) - below(whole + half);
        if (pairs % 2) answer |= half;
    }
    printf("%d\n", answer);
}
