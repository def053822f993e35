/* A program of a system: reads inputs of INPUT_BYTES, and writes OUTPUT_BYTES of each. */
#include <stdint.h>
#include <stdio.h>

#include "net.h"

int main(void)
{
    static union {
        uint8_t bytes[INPUT_BYTES];
        int64_t aligned;
    } input;
    static union {
        uint8_t bytes[OUTPUT_BYTES];
        int64_t aligned;
    } output;
    while (fread(input.bytes, 1, INPUT_BYTES, stdin) == INPUT_BYTES) {
        probe(input.bytes, output.bytes);
        fwrite(output.bytes, 1, OUTPUT_BYTES, stdout);
    }
    return 0;
}
