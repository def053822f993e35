/* Four numbers of 32 bits, those of a block of the stream that two seeds of 64 bits make: Philox 4x32 of ten rounds (Salmon and
   others, 2011). */
static void random_bits(uint32_t *bits, const uint32_t *seeds, uint64_t block)
{
    uint32_t key = seeds[0], other = seeds[1];
    bits[0] = (uint32_t)block;
    bits[1] = (uint32_t)(block >> 32);
    bits[2] = seeds[2];
    bits[3] = seeds[3];
    for (int round = 0; round < 10; round++) {
        const uint64_t first = (uint64_t)bits[0] * 0xd2511f53u, second = (uint64_t)bits[2] * 0xcd9e8d57u;
        bits[0] = (uint32_t)(second >> 32) ^ bits[1] ^ key;
        bits[1] = (uint32_t)second;
        bits[2] = (uint32_t)(first >> 32) ^ bits[3] ^ other;
        bits[3] = (uint32_t)first;
        key += 0x9e3779b9u;
        other += 0xbb67ae85u;
    }
}
