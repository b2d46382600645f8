"""The engine in C++: how it is built, found and called. `docs/performance.md` says what it computes, and when."""
