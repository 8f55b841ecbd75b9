// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What `samara trace --no-stop` sees by BPF: each memory call with its write sections, in one record.
// Knows no areas and no models; `src/nostop/bpf` reads the records, and has the same structures.
// `ci/bpf.sh` builds it.
//
// - BPF-CALL-1: while a task is in a call, its slot has all that the call did so far. The record of
//   the call is in the ring before the slot is emptied. A call is known by its slot and its entry.
// - BPF-CALL-2: sections are only added to a slot. A change of another kind makes `version` odd
//   first, and even again afterwards. (x86-64 keeps the order of stores.)
// - BPF-LOST-1: each record that finds no room is counted, by processor.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

// The types of the kernel that are needed, with the fields that are. The loader puts in where the
// running kernel has them.
#define KERNELS __attribute__((preserve_access_index))
struct thread_info { u32 status; } KERNELS;
struct mm_struct { int map_count; unsigned long start_stack; } KERNELS;
struct task_struct {
    struct thread_info thread_info;
    struct mm_struct *mm;
    int pid, tgid, exit_code;
    struct task_struct *group_leader;
    struct pid *thread_pid;
} KERNELS;
// A task's number in a namespace of processes, and in each one around that; the machine's first.
struct ns_common { u32 inum; } KERNELS;
struct pid_namespace { struct ns_common ns; } KERNELS;
struct upid { int nr; struct pid_namespace *ns; };
struct pid { u32 level; struct upid numbers[1]; } KERNELS;
// A program's registers at a call.
struct pt_regs {
    unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
// Before Linux 6.12 the tracepoint has the path of the control group, also among its arguments.
struct trace_event_raw_mmap_lock_acquire_returned { u32 __data_loc_memcg_path; } KERNELS;

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*time_ns)(void) = (void *)5;
static u32 (*this_processor)(void) = (void *)8;
static long (*map_push)(void *map, const void *value, u64 flags) = (void *)87;
static long (*map_pop)(void *map, void *value) = (void *)88;
static long (*copy_from_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*copy_from_kernel)(void *to, u32 size, const void *from) = (void *)113;
static u64 (*group_at)(int depth) = (void *)123;
static void *(*ring_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*ring_submit)(void *data, u64 flags) = (void *)132;
static u64 (*ring_query)(void *ring, u64 what) = (void *)134;
static void *(*storage)(void *map, struct task_struct *task, void *value, u64 flags) = (void *)156;
static struct task_struct *(*current_task)(void) = (void *)158;
static struct pt_regs *(*registers_of)(struct task_struct *task) = (void *)175;
enum { CREATE = 1, NO_WAKE = 1, WAKE = 2, UNREAD = 0 };

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define APART static __attribute__((noinline))
#define SETTLED asm volatile("" ::: "memory")
// The description of a map: a number, or a type.
#define NUMBER(name, value) int(*name)[value]
#define TYPE(name, value) typeof(value) *name
// An array that samara maps into its own memory; the loader says how many values it has.
#define MAPPED(name, value_type)                                                                                     \
    struct {                                                                                                         \
        NUMBER(type, 2);                                                                                             \
        NUMBER(map_flags, 1 << 10);                                                                                  \
        NUMBER(max_entries, 2);                                                                                      \
        TYPE(key, u32);                                                                                              \
        TYPE(value, value_type);                                                                                     \
    } name SECTION(".maps")

// A write section of an address space, the tasks that began and ended it, and how many areas the space
// had then.
struct section { u64 mm, locked, unlocked; u32 locker, unlocker, before, after; };
enum { SECTIONS = 4 }; // a power of two
// A call that a task is in: `entered` is 0 if it is in none. `base`: how many sections it had before.
struct call { u64 version, entered; u32 tid, pid, nr, base; u64 args[6], n; struct section sections[SECTIONS]; };

enum { DONE, PART, ENTRY, LOCK, UNLOCK, STACK, KILLED };
struct head { u32 kind, slot; u64 time; u32 tid, pid; };
struct call_record { struct head head; s64 result; struct call call; };
struct entry_record { struct head head; u64 nr, args[6]; };
struct section_record { struct head head; u64 mm, areas; };
enum { STEP = 1024, FEW = 2 }; // of a copied stack
struct stack_record { struct head head; u64 entered, ip, sp, bp, bottom, len; u8 bytes[STEP]; };

#define HAS_PATH                                                                                                     \
    __builtin_preserve_field_info(                                                                                   \
        ((struct trace_event_raw_mmap_lock_acquire_returned *)0)->__data_loc_memcg_path, 2)

#define NUMBERS __builtin_preserve_field_info(((struct pid *)0)->numbers, 0)

// An argument of a tracepoint: the kernel refuses one that is read at a place that was computed.
#define ARGUMENT(ctx, n)                                                                                             \
    ({                                                                                                               \
        u64 value;                                                                                                   \
        asm volatile("%0 = *(u64 *)(%1 + " #n " * 8)" : "=r"(value) : "r"(ctx));                                     \
        value;                                                                                                       \
    })

// What a task has besides: its slot, or 0, and whether it has ended. What it does then is not recorded.
struct own { u32 slot, ended; };

// Set by the loader: the calls that are recorded, and those that do not return. Whether the tasks
// of all processes are, or all of a control group (and of those below it), but those of one process.
// The namespace that numbers of tasks are of; 0: the machine's. How much of a stack is copied (times
// STEP). When the reader is woken: where this many bytes are unread, up to as many more.
const volatile u64 CALLS[8] = {0};
const volatile u64 ENDS[8] = {0};
const volatile u32 ALL = 0;
const volatile u64 GROUP = 0;
const volatile u32 NOT_THIS = 0;
const volatile u32 NAMESPACE = 0;
const volatile u32 STACK_STEPS = 0;
const volatile u32 SLOTS = 2;
const volatile u64 WAKE_FROM = 0;
const volatile u64 WAKE_MORE = 1;

struct { NUMBER(type, 27); NUMBER(max_entries, 1 << 20); } ring SECTION(".maps");
// The processes that are recorded. Those of their children are known by their storage.
struct { NUMBER(type, 1); NUMBER(max_entries, 1024); TYPE(key, u32); TYPE(value, u32); } watched SECTION(".maps");
struct { NUMBER(type, 29); NUMBER(map_flags, 1); TYPE(key, int); TYPE(value, struct own); } tasks SECTION(".maps");
// Slot 0 is of no task: its `n` is the number of slots that were ever used.
MAPPED(slots, struct call);
// Slots of tasks that have ended.
struct { NUMBER(type, 23); NUMBER(max_entries, 2); TYPE(value, u32); } unused SECTION(".maps");
// The records that each processor lost, in a cache line of its own. Samara maps them, because the kernel
// skips programs at tracepoints on a processor that is in a bpf call on a map.
struct losses { u64 n, others[7]; };
MAPPED(lost, struct losses);

// Which programs record calls. Programs are attached and detached one by one; this starts and ends the
// recording at once.
enum { NONE, AT_EACH, AT_ALL };
struct { NUMBER(type, 2); NUMBER(max_entries, 1); TYPE(key, u32); TYPE(value, u32); } recording SECTION(".maps");

// How many control groups are around GROUP, and how many namespaces around NAMESPACE, once one was found.
static volatile u32 depth = 0, around = 0;
enum { GROUPS = 256, NAMESPACES = 33 }; // most that are nested, and the machine's

char LICENSE[] SECTION("license") = "Dual MIT/GPL";

INLINE void lose(void)
{
    u32 processor = this_processor();
    struct losses *all = map_lookup(&lost, &processor);
    if (all)
        all->n += 1;
}

INLINE void submit(void *record)
{
    u64 unread = ring_query(&ring, UNREAD);
    ring_submit(record, unread - WAKE_FROM < WAKE_MORE ? WAKE : NO_WAKE);
}

// The number that a task has in the reader's namespace, if that is `n`-th from the machine's. 0: not.
INLINE u32 number_at(u64 pid, u32 n)
{
    struct upid number;
    u32 namespace;
    if (copy_from_kernel(&number, sizeof number, (void *)(pid + NUMBERS + n * sizeof number)) ||
        copy_from_kernel(&namespace, sizeof namespace, &number.ns->ns.inum))
        return 0;
    return namespace == NAMESPACE ? number.nr : 0;
}

// A task's number in the reader's namespace; 0: it has none.
APART u32 number_in_namespace(struct task_struct *task)
{
    u64 pid;
    u32 last;
    if (copy_from_kernel(&pid, sizeof pid, &task->thread_pid) ||
        copy_from_kernel(&last, sizeof last, &((struct pid *)pid)->level))
        return 0;
    u32 number = around <= last ? number_at(pid, around) : 0;
#pragma clang loop unroll(disable)
    for (u32 i = 0; !number && i < NAMESPACES && i <= last; i++) {
        number = number_at(pid, i);
        if (number)
            around = i;
    }
    return number;
}

INLINE u32 tid_of(struct task_struct *task)
{
    return NAMESPACE ? number_in_namespace(task) : task->pid;
}

INLINE u32 pid_of(struct task_struct *task)
{
    return NAMESPACE ? number_in_namespace(task->group_leader) : task->tgid;
}

INLINE struct head head(u32 kind, u32 slot, struct task_struct *task)
{
    return (struct head){kind, slot, time_ns(), tid_of(task), pid_of(task)};
}

// Whether the running task is in the control group, or in one below it.
APART int is_in_group(void)
{
    if (group_at(depth & (GROUPS - 1)) == GROUP)
        return 1;
#pragma clang loop unroll(disable)
    for (u32 i = 0; i < GROUPS; i++) {
        u64 group = group_at(i);
        if (group == GROUP) {
            depth = i;
            return 1;
        }
        if (!group)
            return 0;
    }
    return 0;
}

INLINE u32 recording_by(void)
{
    u32 first = 0, *by = map_lookup(&recording, &first);
    return by ? *by : NONE;
}

// What the running task has besides, if it is recorded.
INLINE struct own *recorded(struct task_struct *task)
{
    if (recording_by() == NONE)
        return 0;
    if (GROUP && !is_in_group())
        return 0; // it may have left it
    struct own *own = storage(&tasks, task, 0, 0);
    if (own)
        return own->ended ? 0 : own;
    u32 process = pid_of(task);
    if (!process || (ALL || GROUP ? process == NOT_THIS : !map_lookup(&watched, &process)))
        return 0;
    own = storage(&tasks, task, 0, CREATE);
    if (!own)
        lose();
    return own;
}

INLINE struct call *slot_of(struct own *own)
{
    u32 slot = own->slot;
    return slot ? map_lookup(&slots, &slot) : 0;
}

// The call that a task is in, if it is recorded: also where the task has left its control group
// since.
INLINE struct call *open_call(struct task_struct *task)
{
    struct own *own = storage(&tasks, task, 0, 0);
    struct call *call = own && !own->ended ? slot_of(own) : 0;
    return call && call->entered ? call : 0;
}

// Gives a task a slot.
INLINE struct call *new_slot(struct own *own)
{
    u32 slot = 0;
    if (map_pop(&unused, &slot)) {
        u32 first = 0;
        struct call *all = map_lookup(&slots, &first);
        if (!all)
            return 0;
        if (all->n + 1 >= SLOTS)
            return 0;
        slot = __sync_fetch_and_add(&all->n, 1) + 1;
        if (slot >= SLOTS)
            return 0;
    }
    own->slot = slot;
    return map_lookup(&slots, &slot);
}

// Writes what a call did so far.
INLINE void tell(struct call *call, u32 kind, u32 slot, struct task_struct *task, s64 result)
{
    struct call_record *record;
    if (call->n <= 1) {
        enum { LESS = sizeof(struct section) * (SECTIONS - 1) };
        record = ring_reserve(&ring, sizeof *record - LESS, 0);
        if (!record)
            return lose();
        __builtin_memcpy(&record->call, call, sizeof *call - LESS);
    } else {
        record = ring_reserve(&ring, sizeof *record, 0);
        if (!record)
            return lose();
        __builtin_memcpy(&record->call, call, sizeof *call);
    }
    record->head = head(kind, slot, task);
    record->result = result;
    submit(record);
}

// A section, with its space and how many areas that has. Or a signal ends the task: its wait status
// stands where a section has its space.
INLINE void tell_two(u32 kind, struct task_struct *task, u64 mm, u32 areas)
{
    struct section_record *record = ring_reserve(&ring, sizeof *record, 0);
    if (!record)
        return lose();
    record->head = head(kind, 0, task);
    record->mm = mm;
    record->areas = areas;
    submit(record);
}

// Copies at most `most` steps of a task's stack. A step does not cross a page, so all of it is there
// or nothing. `bottom`: that of the process's first thread.
INLINE void
copy_stack(struct call *call, u32 slot, struct task_struct *task, struct pt_regs *regs, u64 bottom, u32 most)
{
    u64 from = regs->sp & ~(u64)(STEP - 1);
    struct stack_record *record = ring_reserve(&ring, sizeof *record - STEP + most * STEP, 0);
    if (!record)
        return lose();
    record->head = head(STACK, slot, task);
    record->entered = call->entered;
    record->ip = regs->ip;
    record->sp = regs->sp;
    record->bp = regs->bp;
    record->bottom = bottom;
    u64 steps = 0;
    for (u32 i = 0; i < most; i++) {
        if (copy_from_user(record->bytes + i * STEP, STEP, (void *)(from + i * STEP)))
            break;
        steps = i + 1;
    }
    record->len = steps * STEP;
    submit(record);
}

// Behind the frames of a process's first thread are its arguments: where few steps reach them, no
// more are copied.
INLINE void tell_stack(struct call *call, u32 slot, struct task_struct *task, struct pt_regs *regs)
{
    struct mm_struct *mm = task->mm;
    u64 bottom = mm ? mm->start_stack : 0;
    u64 left = bottom - (regs->sp & ~(u64)(STEP - 1));
    if (STACK_STEPS > FEW && left < FEW * STEP)
        copy_stack(call, slot, task, regs, bottom, FEW);
    else
        copy_stack(call, slot, task, regs, bottom, STACK_STEPS);
}

INLINE int is_in(const volatile u64 *set, u64 nr)
{
    return nr < 512 && set[nr / 64 & 7] >> (nr & 63) & 1;
}

// Whether the call is one of a 32-bit program: those have other numbers.
INLINE int is_compat(struct task_struct *task)
{
    return task->thread_info.status & 2;
}

// A task enters a call.
INLINE void enter(struct task_struct *task, struct pt_regs *regs, u64 nr)
{
    struct own *own = recorded(task);
    if (!own)
        return;
    if (is_in(ENDS, nr)) {
        struct entry_record *record = ring_reserve(&ring, sizeof *record, 0);
        if (!record)
            return lose();
        record->head = head(ENTRY, 0, task);
        record->nr = nr;
        record->args[0] = regs->di;
        record->args[1] = record->args[2] = record->args[3] = record->args[4] = record->args[5] = 0;
        submit(record);
        return;
    }
    struct call *call = slot_of(own);
    if (!call)
        call = new_slot(own);
    if (!call)
        return lose();
    if (call->entered)
        lose(); // its return
    u32 tid = tid_of(task), pid = pid_of(task);
    call->version += 1;
    SETTLED;
    call->tid = tid;
    call->pid = pid;
    call->nr = nr;
    call->base = 0;
    call->args[0] = regs->di;
    call->args[1] = regs->si;
    call->args[2] = regs->dx;
    call->args[3] = regs->r10;
    call->args[4] = regs->r8;
    call->args[5] = regs->r9;
    call->n = 0;
    call->entered = time_ns();
    SETTLED;
    call->version += 1;
    if (STACK_STEPS)
        tell_stack(call, own->slot, task, regs);
}

// A task's call is over.
INLINE void leave(u64 result)
{
    struct task_struct *task = current_task();
    struct own *own = storage(&tasks, task, 0, 0);
    if (!own)
        return;
    struct call *call = slot_of(own);
    if (!call || !call->entered)
        return;
    tell(call, DONE, own->slot, task, result);
    SETTLED;
    call->entered = 0;
}

// At the tracepoints of each recorded call (since Linux 5.15): other calls are slowed half as much as by
// programs at all calls. They return 1: after 0 the kernel drops the perf events of others.
SECTION("tracepoint/enter") int each_enter(u64 *ctx)
{
    struct task_struct *task = current_task();
    u32 nr = *(u32 *)(ctx + 1); // nothing more is there
    if (recording_by() == AT_EACH)
        enter(task, registers_of(task), nr);
    return 1;
}

SECTION("tracepoint/exit") int each_exit(u64 *ctx)
{
    if (recording_by() == AT_EACH)
        leave(ctx[2]);
    return 1;
}

// At the tracepoints of all calls.
SECTION("tp_btf/sys_enter") int all_enter(u64 *ctx)
{
    struct task_struct *task = current_task();
    u64 nr = ctx[1];
    if (is_in(CALLS, nr) && !is_compat(task))
        enter(task, (void *)ctx[0], nr);
    return 0;
}

SECTION("tp_btf/sys_exit") int all_exit(u64 *ctx)
{
    struct pt_regs *regs = (void *)ctx[0];
    if (is_in(CALLS, regs->orig_ax))
        leave(ctx[1]);
    return 0;
}

// A task has loaded a 32-bit program: the tracepoint of the call's return does not fire.
SECTION("tp_btf/sched_process_exec") int loaded(u64 *ctx)
{
    if (is_compat(current_task()))
        leave(0);
    return 0;
}

// Ends the open section of an address space. False: it is not one of this call.
INLINE int end_section(struct call *call, struct mm_struct *mm, u32 tid)
{
    for (u32 i = 0; i < SECTIONS; i++) {
        struct section *section = &call->sections[i];
        if (i < call->n && section->mm == (u64)mm && !section->unlocked) {
            section->unlocker = tid;
            section->after = mm->map_count;
            SETTLED;
            section->unlocked = time_ns();
            return 1;
        }
    }
    return 0;
}

SECTION("tp_btf/mmap_lock_acquire_returned") int lock(u64 *ctx)
{
    struct mm_struct *mm = (void *)ctx[0];
    u64 write, got;
    if (HAS_PATH) {
        write = ARGUMENT(ctx, 2);
        got = ARGUMENT(ctx, 3);
    } else {
        write = ARGUMENT(ctx, 1);
        got = ARGUMENT(ctx, 2);
    }
    if (!(u8)got)
        return 0;
    write = (u8)write;
    struct task_struct *task = current_task();
    struct call *call = open_call(task);
    if (!write) {
        // The section goes on as one for reading: others see what it changed.
        if (call)
            end_section(call, mm, tid_of(task));
        return 0;
    }
    if (!call) {
        if (recorded(task))
            tell_two(LOCK, task, (u64)mm, mm->map_count);
        return 0;
    }
    u64 n = call->n;
    if (n >= SECTIONS) {
        struct own *own = storage(&tasks, task, 0, 0);
        tell(call, PART, own ? own->slot : 0, task, 0);
        call->version += 1;
        SETTLED;
        call->base += SECTIONS;
        call->n = n = 0;
        SETTLED;
        call->version += 1;
    }
    struct section *section = &call->sections[n & (SECTIONS - 1)];
    section->mm = (u64)mm;
    section->before = mm->map_count;
    section->unlocked = 0;
    section->unlocker = 0;
    section->locker = tid_of(task);
    section->locked = time_ns();
    SETTLED;
    call->n = n + 1;
    return 0;
}

SECTION("tp_btf/mmap_lock_released") int unlock(u64 *ctx)
{
    struct mm_struct *mm = (void *)ctx[0];
    u64 write;
    if (HAS_PATH)
        write = ARGUMENT(ctx, 2);
    else
        write = ARGUMENT(ctx, 1);
    if (!(u8)write)
        return 0;
    struct task_struct *task = current_task();
    struct call *call = open_call(task);
    if ((!call || !end_section(call, mm, tid_of(task))) && recorded(task))
        tell_two(UNLOCK, task, (u64)mm, mm->map_count);
    return 0;
}

// The tasks that a recorded one makes are recorded.
SECTION("tp_btf/sched_process_fork") int born(u64 *ctx)
{
    struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
    if (!ALL && !GROUP && recorded(parent) && !storage(&tasks, child, 0, CREATE))
        lose();
    return 0;
}

SECTION("tp_btf/sched_process_exit") int ended(u64 *ctx)
{
    struct task_struct *task = (void *)ctx[0];
    // It may have left its control group already.
    struct own *own = GROUP ? storage(&tasks, task, 0, 0) : recorded(task);
    if (!own)
        return 0;
    own->ended = 1;
    if (task->exit_code & 0x7f)
        tell_two(KILLED, task, (u32)task->exit_code, 0);
    struct call *call = slot_of(own);
    if (!call)
        return 0;
    u32 slot = own->slot;
    if (call->entered)
        tell(call, PART, slot, task, 0);
    SETTLED;
    call->entered = 0;
    own->slot = 0;
    map_push(&unused, &slot, 0);
    return 0;
}
