/* Start-up of a board that QEMU plays, and the calls of Linux that a program makes, through semihosting: what comes in is
   read from the file "in.bin", and what goes out is written to "out.bin". */
#include <stdint.h>
#include <string.h>

extern uint32_t stack_top[], bss_start[], bss_end[];

int main(int count, char **arguments);
long read(int file, void *bytes, unsigned long count);
long write(int file, const void *bytes, unsigned long count);
void reset(void) __attribute__((noreturn));
static void fault(void) __attribute__((noreturn));

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[16] = {
    (uintptr_t)stack_top, (uintptr_t)reset, (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault, (uintptr_t)fault,
    (uintptr_t)fault,
};

static intptr_t files[2];

static intptr_t semihost(uint32_t call, const void *argument)
{
    register uint32_t r0 __asm__("r0") = call;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return (intptr_t)r0;
}

static void __attribute__((noreturn)) stop(uintptr_t why)
{
    semihost(0x18, (const void *)why); /* SYS_EXIT */
    for (;;) {
    }
}

static void fault(void)
{
    stop(0x20023); /* ADP_Stopped_RunTimeErrorUnknown */
}

static intptr_t opened(const char *name, uintptr_t mode)
{
    const uintptr_t asked[3] = {(uintptr_t)name, mode, strlen(name)};
    return semihost(0x01, asked);
}

long read(int file, void *bytes, unsigned long count)
{
    const uintptr_t asked[3] = {(uintptr_t)files[file], (uintptr_t)bytes, count};
    return (long)count - semihost(0x06, asked); /* SYS_READ tells what it did not read, and SYS_WRITE as well */
}

long write(int file, const void *bytes, unsigned long count)
{
    const uintptr_t asked[3] = {(uintptr_t)files[file], (uintptr_t)bytes, count};
    return semihost(0x05, asked) == 0 ? (long)count : -1;
}

void reset(void)
{
#ifdef __ARM_FP
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* CPACR: floating point and vectors */
    __asm__ volatile("dsb\n isb");
#endif
    memset(bss_start, 0, (size_t)((uint8_t *)bss_end - (uint8_t *)bss_start));
    files[0] = opened("in.bin", 1);
    files[1] = opened("out.bin", 5);
    if (main(0, 0) != 0) {
        fault();
    }
    stop(0x20026); /* ADP_Stopped_ApplicationExit */
}
