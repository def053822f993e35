typedef struct {
    int32_t bytes; /* of a pixel, a multiple of 16 */
    const int32_t *factors, *factors_end; /* of each four filters: biases, multipliers, summands, shifts */
    uint16_t places[8];                   /* of two pixels' first four bytes in the output */
} product_pairs_mve_t;

/* What VQRDMULH leaves is rounded once; "away": negative halves of the second rounding go away from zero. */
#define PAIRS_up
#define PAIRS_away "vshr.s32 q4, q0, #31\n vadd.i32 q0, q0, q4\n vshr.s32 q4, q1, #31\n vadd.i32 q1, q1, q4\n"
