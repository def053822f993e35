/* Start-up of a bare processor, and a run of the network that is counted.

   NETWORK_HEADER names the header, RUN(in, out) calls the network, INPUT_BYTES and OUTPUT_BYTES are its sizes,
   SAMPLES says how many inputs there are in `samples`. Answers leave as lines of text through semihosting:
   "ticks N", "stack N" and for each sample "answer HEX". */
#include <stdint.h>
#include <string.h>

#include NETWORK_HEADER

extern uint32_t stack_bottom[], stack_top[], data_source[], data_start[], data_end[], bss_start[], bss_end[];
extern const uint8_t samples[];

void reset(void) __attribute__((noreturn));
static void stop(void) __attribute__((noreturn));

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[16] = {
    (uintptr_t)stack_top, (uintptr_t)reset, (uintptr_t)stop, (uintptr_t)stop, (uintptr_t)stop, (uintptr_t)stop,
    (uintptr_t)stop,
};

static uint32_t semihost(uint32_t call, const void *argument)
{
    register uint32_t r0 __asm__("r0") = call;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

static void stop(void)
{
    semihost(0x18, (const void *)0x20026); /* SYS_EXIT, ADP_Stopped_ApplicationExit */
    for (;;) {
    }
}

static void write_text(const char *text)
{
    semihost(0x04, text); /* SYS_WRITE0 */
}

static void write_number(const char *name, uint32_t number)
{
    char digits[12], *at = digits + sizeof digits - 1;
    *at = 0;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    write_text(name);
    write_text(at);
    write_text("\n");
}

static void write_bytes(const uint8_t *bytes, uint32_t count)
{
    static const char hex[] = "0123456789abcdef";
    char piece[65];
    write_text("answer ");
    while (count > 0) {
        const uint32_t now = count < 32 ? count : 32;
        for (uint32_t i = 0; i < now; i++) {
            piece[2 * i] = hex[bytes[i] >> 4];
            piece[2 * i + 1] = hex[bytes[i] & 15];
        }
        piece[2 * now] = 0;
        write_text(piece);
        bytes += now;
        count -= now;
    }
    write_text("\n");
}

#ifdef LAYERS
/* When each layer ended, by `layer_done`, which stands behind each in the network's C. */
static uint32_t layer_ends[LAYERS + 1] __attribute__((section(".samples_ram"))), layers;
void layer_done(void);
#endif

#define SYSTICK_CONTROL (*(volatile uint32_t *)0xe000e010)
#define SYSTICK_RELOAD (*(volatile uint32_t *)0xe000e014)
#define SYSTICK_NOW (*(volatile uint32_t *)0xe000e018)
#define PAINT 0xc5c5c5c5u

#ifdef LAYERS
void layer_done(void)
{
    layer_ends[++layers] = SYSTICK_NOW;
}
#endif

/* In the section of inputs: they belong to the measurement, not to the network. */
static union {
    uint8_t bytes[INPUT_BYTES];
    int64_t aligned;
} input __attribute__((section(".samples_ram")));
static union {
    uint8_t bytes[OUTPUT_BYTES];
    int64_t aligned;
} output __attribute__((section(".samples_ram")));

/* What a run takes of the stack: all below is painted first, and the deepest that lost its colour is looked for. */
static uint32_t __attribute__((noinline)) counted_run(uint32_t *stack_bytes)
{
    uint32_t here, before, after;
    uint32_t *const limit = &here - 24;
    for (uint32_t *p = stack_bottom; p < limit; p++) {
        *p = PAINT;
    }
    before = SYSTICK_NOW;
#ifdef LAYERS
    layers = 0;
    layer_ends[0] = before;
#endif
    RUN(input.bytes, output.bytes);
    after = SYSTICK_NOW;
    uint32_t *p = stack_bottom;
    while (p < limit && *p == PAINT) {
        p++;
    }
    *stack_bytes = (uint32_t)((uint8_t *)&here - (uint8_t *)p);
    return (before - after) & 0xffffff;
}

int main(void)
{
    uint32_t ticks = 0, stack = 0;
    SYSTICK_RELOAD = 0xffffff;
    SYSTICK_NOW = 0;
    SYSTICK_CONTROL = 5; /* on, by the clock of the processor, no interrupt */
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t used;
        memcpy(input.bytes, samples + i * INPUT_BYTES, INPUT_BYTES);
        const uint32_t spent = counted_run(&used);
        ticks = spent > ticks ? spent : ticks;
        stack = used > stack ? used : stack;
        write_bytes(output.bytes, OUTPUT_BYTES);
    }
    write_number("ticks ", ticks);
#ifdef LAYERS
    for (uint32_t i = 0; i < layers; i++) {
        write_number("layer ", (layer_ends[i] - layer_ends[i + 1]) & 0xffffff);
    }
#endif
    write_number("stack ", stack);
    stop();
}

void reset(void)
{
#ifdef __ARM_FP
    *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* CPACR: floating point and vectors */
    __asm__ volatile("dsb\n isb");
#endif
    memcpy(data_start, data_source, (size_t)((uint8_t *)data_end - (uint8_t *)data_start));
    memset(bss_start, 0, (size_t)((uint8_t *)bss_end - (uint8_t *)bss_start));
    main();
    stop();
}
