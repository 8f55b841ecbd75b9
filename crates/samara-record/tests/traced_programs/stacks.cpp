// What stacks.c does, through what C++ adds: virtual functions, templates, lambdas, exceptions.
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

extern "C" void *leaf(const char *what, int n);
extern "C" int backtrace(void **frames, int size);

#define NOINLINE __attribute__((noinline, noclone))

static unsigned long long state = 12345;
static unsigned draw() {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return state >> 33;
}

NOINLINE long deeper(int n);

struct Shape {
    virtual ~Shape() = default;
    virtual long call(int n) = 0;
};
struct Round : Shape {
    NOINLINE long call(int n) override { return deeper(n - 1) + 1; }
};
struct Square : Shape {
    std::string name = "square";
    NOINLINE long call(int n) override { return deeper(n - 1) + long(name.size()); }
};

template <typename T, int N> NOINLINE long generic(T n) {
    T all[N] = {n};
    asm volatile("" ::"r"(all) : "memory");
    return deeper(int(all[0]) - 1) + long(all[N - 1]);
}

NOINLINE long caught(int n) {
    try {
        if (deeper(n - 1) == 0) throw std::runtime_error("no page");
        throw n;
    } catch (int n) {
        return deeper(-1) + n;
    }
}

NOINLINE long deeper(int n) {
    if (n <= 0) return long(leaf("deeper", n)) + 1;
    std::unique_ptr<Shape> shape;
    std::function<long(int)> lambda = [n](int by) { return deeper(n - by) + 1; };
    switch (draw() % 5) {
    case 0: shape = std::make_unique<Round>(); break;
    case 1: shape = std::make_unique<Square>(); break;
    case 2: return generic<short, 7>(short(n)) + 1;
    case 3: return generic<double, 90>(n) + 1;
    default: return lambda(1) + 1;
    }
    return shape->call(n) + 1;
}

void run() {
    for (int i = 0; i < 100; i++) deeper(i % 24);
}

int main() {
    void *frames[2];
    backtrace(frames, 2); // loads what it needs
    run();
    std::thread(run).join();
    try {
        caught(3);
    } catch (const std::exception &) {
    }
    return 0;
}
