#include <arm_mve.h>

/* Bytes, sixteen at a time. */
__attribute__((unused)) static void copy_mve(int8_t *to, const int8_t *from, int32_t bytes)
{
    for (; bytes > 0; bytes -= 16, to += 16, from += 16) {
        const mve_pred16_t some = vctp8q((uint32_t)bytes);
        vstrbq_p_s8(to, vldrbq_z_s8(from, some), some);
    }
}

__attribute__((unused)) static void fill_mve(int8_t *to, int32_t value, int32_t bytes)
{
    for (; bytes > 0; bytes -= 16, to += 16) {
        vstrbq_p_s8(to, vdupq_n_s8((int8_t)value), vctp8q((uint32_t)bytes));
    }
}

__attribute__((unused)) static void clamp_bytes_mve(int8_t *y, int32_t bytes, int32_t least, int32_t most)
{
    const int8x16_t low = vdupq_n_s8((int8_t)least), high = vdupq_n_s8((int8_t)most);
    for (; bytes > 0; bytes -= 16, y += 16) {
        const mve_pred16_t some = vctp8q((uint32_t)bytes);
        vstrbq_p_s8(y, vminq_s8(vmaxq_s8(vldrbq_z_s8(y, some), low), high), some);
    }
}
