"""Operations of the store on Valkey that take more than one call to the server.

Each call is atomic by itself; a module says what holds when an operation ends between two calls.
"""
