/* Start-up of a program for QEMU's RISC-V in user mode, and the three calls of Linux that it makes: the bare compiler's C
   library has none. */
#include <stdint.h>

int main(int count, char **arguments);
long read(int file, void *bytes, unsigned long count);
long write(int file, const void *bytes, unsigned long count);
void begin(intptr_t *stack) __attribute__((noreturn, used));
void _start(void);

static long linux_call(long number, long first, long second, long third)
{
    register long a0 __asm__("a0") = first;
    register long a1 __asm__("a1") = second;
    register long a2 __asm__("a2") = third;
    register long a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}

long read(int file, void *bytes, unsigned long count)
{
    return linux_call(63, file, (long)bytes, (long)count);
}

long write(int file, const void *bytes, unsigned long count)
{
    return linux_call(64, file, (long)bytes, (long)count);
}

void begin(intptr_t *stack)
{
    const long status = main((int)stack[0], (char **)(stack + 1));
    for (;;) {
        linux_call(93, status, 0, 0);
    }
}

__asm__(".globl _start\n_start:\nmv a0, sp\ncall begin\n");
