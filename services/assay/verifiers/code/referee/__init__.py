"""The harness of function tests: pid 1 of a box, beside a candidate that it does not trust.

Two processes that share nothing but a socket. The *candidate* is forked first, confined, and runs
the program; it never holds a test or an expected value. The *referee* then unseals the tests and
runs them; names that the tests do not define are proxies, whose calls are messages to the
candidate.
Always true:

* what comes back is data of exact builtin types, rebuilt by the referee, or an opaque handle; no
  code of the candidate runs in the referee and no comparison is ever delegated to the candidate;
* messages are bounded and checked; a malformed one is the candidate's failure;
* a test counts as passed only by a record on the box's channel, which the referee alone holds and
  which carries the nonce that came with the sealed tests;
* arguments that a call changed are changed in the tests too, with their identities.

This package is loaded by the zygote: standard library only, and no other part of Assay.
"""
