#include <bits/stdc++.h>
using namespace std;

int main() {
    string n, m;
    cin >> n >> m;
    sort(n.begin(), n.end());
    auto first = n.find_first_not_of('0');
    puts(n == m ? "OK" : "WRONG_ANSWER");
}
