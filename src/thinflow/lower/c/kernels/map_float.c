#include <math.h>

/* Each element by itself. */
static void $name(const float *input, float *output, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        const float x = input[i];
        output[i] = $expression;
    }
}
