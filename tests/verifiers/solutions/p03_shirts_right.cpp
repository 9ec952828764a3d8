#include <bits/stdc++.h>
using namespace std;

int main() {
    int n;
    cin >> n;
    map<string, int> count;
    string size;
    for (int i = 0; i < n; ++i) cin >> size, ++count[size];
    for (int i = 0; i < n; ++i) cin >> size, --count[size];
    int changes = 0;
    for (auto& [name, left] : count) changes += max(left, 0);
    cout << changes << endl;
}
