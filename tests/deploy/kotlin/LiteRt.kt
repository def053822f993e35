// LiteRT's Kotlin as far as the app calls it, with the same signatures. A model gives the self-test's answers if it
// is fed the self-test's inputs, and nothing else.

package com.google.ai.edge.litert

import android.content.res.AssetManager
import java.nio.ByteBuffer
import java.nio.ByteOrder
import org.json.JSONArray
import org.json.JSONObject

enum class Accelerator { CPU, GPU, NPU }

class Environment

class TensorBuffer(val size: Int) : AutoCloseable {
    var content = ByteArray(0)

    fun writeFloat(data: FloatArray) = written(ByteArray(4 * data.size).also { ordered(it).asFloatBuffer().put(data) })

    fun writeInt(data: IntArray) = written(ByteArray(4 * data.size).also { ordered(it).asIntBuffer().put(data) })

    fun writeInt8(data: ByteArray) = written(data.copyOf())

    fun readFloat() = FloatArray(content.size / 4).also { ordered(content).asFloatBuffer().get(it) }

    fun readInt() = IntArray(content.size / 4).also { ordered(content).asIntBuffer().get(it) }

    fun readInt8() = content.copyOf()

    override fun close() = Unit

    private fun written(bytes: ByteArray) {
        check(bytes.size == size) { "${bytes.size} bytes are written into a buffer of $size" }
        content = bytes
    }

    private fun ordered(bytes: ByteArray) = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)
}

class CompiledModel private constructor(private val assets: AssetManager) : AutoCloseable {
    class Options(vararg val accelerators: Accelerator)

    private val json = JSONObject(String(assets.open("model.json").use { it.readBytes() }, Charsets.UTF_8))
    private val test = json.getJSONObject("self_test")

    fun createInputBuffer(inputName: String, signature: String? = null) =
        TensorBuffer(file("inputs", inputName).size).also { check(signature == null) }

    fun createOutputBuffer(outputName: String, signature: String? = null) =
        TensorBuffer(file("outputs", outputName).size).also { check(signature == null) }

    fun run(inputs: Map<String, TensorBuffer>, outputs: Map<String, TensorBuffer>, signature: String? = null) {
        check(signature == null && inputs.size == json.getJSONArray("inputs").length())
        for ((name, buffer) in inputs) {
            check(buffer.content.contentEquals(file("inputs", name))) { "$name is fed otherwise than in Python" }
        }
        for ((name, buffer) in outputs) buffer.content = file("outputs", name)
    }

    override fun close() = Unit

    private fun file(side: String, name: String): ByteArray {
        val ends: JSONArray = json.getJSONArray(side)
        val place = (0 until ends.length()).single { ends.getJSONObject(it).getString("alias") == name }
        return assets.open(test.getJSONArray(side).getString(place)).use { it.readBytes() }
    }

    companion object {
        fun create(
            assetManager: AssetManager,
            assetName: String,
            options: Options = Options(Accelerator.CPU),
            optionalEnv: Environment? = null
        ): CompiledModel {
            check(assetManager.open(assetName).use { it.read() } >= 0 && optionalEnv == null)
            check(options.accelerators.contentEquals(arrayOf(Accelerator.CPU)))
            return CompiledModel(assetManager)
        }
    }
}
