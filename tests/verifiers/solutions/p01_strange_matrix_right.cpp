#include <bits/stdc++.h>
using namespace std;

int main() {
    int n, m, p;
    scanf("%d %d %d", &n, &m, &p);
    map<int, map<int, int>> rows;
    while (p--) {
        int i, j;
        scanf("%d %d", &i, &j);
        ++rows[i][j];
    }
    for (int i = 1; i <= n; ++i) {
        auto& row = rows[i];
        auto at = [&](int j) { auto f = row.find(j); return j + (f == row.end() ? 0 : f->second); };
        bool open = true;
        for (auto& [j, more] : row)
            if (j < m && at(j) > at(j + 1)) open = false;
        printf("%d\n", open ? at(m) - at(1) : -1);
    }
}
