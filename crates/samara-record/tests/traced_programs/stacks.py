# What stacks.c does, through what Python adds: generators, comprehensions, callbacks from C, methods
# that operators call. The argument is leaf.c as a library, whose one call asks backtrace() and maps.
import ctypes
import functools
import sys
import threading

libc = ctypes.CDLL(None)
leaf = ctypes.CDLL(sys.argv[1]).leaf
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

state = 12345


def draw():
    global state
    state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
    return state >> 33


def recursion(n):
    return deeper(n - 1) + 1


def keywords(n, *rest, **named):
    return deeper(n - 1, **named) + len(rest)


def generator(n):
    def inner():
        yield deeper(n - 1)

    def outer():
        yield from inner()

    return sum(outer())


def comprehension(n):
    return sum([deeper(n - by) for by in (1,)])


def mapped(n):
    return sum(map(functools.partial(keywords, n), [1]))


def by_sort(n):
    return len(sorted([1], key=lambda by: deeper(n - by)))


def by_callback(n):
    return CALLBACK(lambda m: deeper(m - 1))(n)


def by_qsort(n):
    numbers = (ctypes.c_int * 2)(2, 1)
    called = []

    def compare(a, b):
        if not called:
            called.append(deeper(n - 1))
        return 0

    libc.qsort(numbers, 2, 4, COMPARE(compare))
    return called[0]


class Shape:
    def __init__(self, n):
        self.n = n

    def __call__(self):
        return deeper(self.n - 1)

    def __add__(self, other):
        return deeper(self.n - 1) + other

    @property
    def size(self):
        return deeper(self.n - 1)

    def __enter__(self):
        return deeper(self.n - 1)

    def __exit__(self, *what):
        return True


def by_class(n):
    shape = Shape(n)
    match draw() % 4:
        case 0:
            return shape()
        case 1:
            return shape + 1
        case 2:
            return shape.size
        case _:
            with shape as size:
                return size


def by_exception(n):
    try:
        raise ValueError
    except ValueError:
        return deeper(n - 1)
    finally:
        draw()


WAYS = [recursion, keywords, generator, comprehension, mapped, by_sort, by_callback, by_qsort, by_class, by_exception]


def deeper(n, **named):
    if n <= 0:
        return leaf(b"deeper", n)
    return WAYS[draw() % len(WAYS)](n) + 1


def run():
    for i in range(100):
        deeper(i % 24)


libc.backtrace((ctypes.c_void_p * 2)(), 2)  # loads what it needs
run()
thread = threading.Thread(target=run)
thread.start()
thread.join()
