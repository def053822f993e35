#include <math.h>

/* Sums to mean 0 and deviation 1, times their own factors; the bias, which may be NULL, comes behind that, as it would be taken
   out again. */
static void lstm_norm(float *sums, const float *norm, const float *bias, int32_t units)
{
    float mean = 0, variance = 0;
    for (int32_t u = 0; u < units; u++) {
        mean += sums[u];
    }
    mean /= (float)units;
    for (int32_t u = 0; u < units; u++) {
        variance += (sums[u] - mean) * (sums[u] - mean);
    }
    const float factor = 1.0f / sqrtf(variance / (float)units + 1e-8f);
    for (int32_t u = 0; u < units; u++) {
        sums[u] = (sums[u] - mean) * factor * norm[u] + (bias != NULL ? bias[u] : 0.0f);
    }
}
