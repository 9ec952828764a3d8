#include <bits/stdc++.h>
using namespace std;

int main() {
    string s;
    cin >> s;
    int n = s.size();
    vector<int> jumps(n, -1), places[10];
    for (int i = 0; i < n; ++i) places[s[i] - '0'].push_back(i);
    queue<int> front;
    auto visit = [&](int i, int d) {
        if (i >= 0 && i < n && jumps[i] < 0) jumps[i] = d, front.push(i);
    };
    visit(0, 0);
    while (!front.empty()) {
        int i = front.front();
        front.pop();
        visit(i - 1, jumps[i] + 1);
        visit(i + 1, jumps[i] + 1);
        places[s[i] - '0'].clear();
    }
    cout << jumps[n - 1] << endl;
}
