// Maps a page 200 times, each time from other functions, in main and in a goroutine, and writes the
// call stacks as the runtime sees them.
package main

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

var state uint64 = 12345

func draw() uint64 {
	state = state*6364136223846793005 + 1442695040888963407
	return state >> 33
}

type shape interface{ call(n int) int }
type round struct{}
type square struct{ sides [9]int }

//go:noinline
func (round) call(n int) int { return deeper(n-1) + 1 }

//go:noinline
func (s *square) call(n int) int { return deeper(n-1) + s.sides[3] }

//go:noinline
func leaf() int {
	pcs := make([]uintptr, 100)
	pcs = pcs[:runtime.Callers(1, pcs)]
	page, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	var names []string
	frames := runtime.CallersFrames(pcs)
	for {
		frame, more := frames.Next()
		names = append(names, frame.Function)
		if !more {
			break
		}
	}
	fmt.Printf("%x %s\n", uintptr(unsafe.Pointer(&page[0])), strings.Join(names, " "))
	return len(names)
}

//go:noinline
func deeper(n int) int {
	if n <= 0 {
		return leaf() + 1
	}
	switch draw() % 4 {
	case 0:
		return shape(round{}).call(n) + 1
	case 1:
		return shape(&square{}).call(n) + 1
	case 2:
		defer func() { draw() }()
		return deeper(n-1) + 1
	default:
		by := func(m int) int { return deeper(n-m) + 1 }
		return by(1) + 1
	}
}

func run() {
	for i := 0; i < 100; i++ {
		deeper(i % 24)
	}
}

func main() {
	run()
	done := make(chan bool)
	go func() { run(); done <- true }()
	<-done
}
