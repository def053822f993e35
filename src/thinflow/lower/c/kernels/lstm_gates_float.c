#include <math.h>
#include "lstm_norm.c"

/* One of the gates: weights [units, inputs] and [units, outputs]; bias, weights of the cell's own and of a norm [units], or
   NULL. */
typedef struct {
    const float *weights, *recurrent, *bias, *peephole, *norm;
} lstm_any_gate_t;

static float lstm_sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

/* The sums of a gate before its activation, [units]. */
static void lstm_gate_sums(const lstm_any_gate_t *gate, const float *x, const float *h, const float *cell, float *sums,
                           int32_t inputs, int32_t outputs, int32_t units)
{
    for (int32_t u = 0; u < units; u++) {
        float sum = gate->norm == NULL && gate->bias != NULL ? gate->bias[u] : 0.0f;
        for (int32_t k = 0; k < inputs; k++) {
            sum += gate->weights[u * inputs + k] * x[k];
        }
        for (int32_t k = 0; k < outputs; k++) {
            sum += gate->recurrent[u * outputs + k] * h[k];
        }
        sums[u] = gate->peephole != NULL ? sum + gate->peephole[u] * cell[u] : sum;
    }
    if (gate->norm != NULL) {
        lstm_norm(sums, gate->norm, gate->bias, units);
    }
}
