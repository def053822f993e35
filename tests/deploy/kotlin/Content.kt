package android.content

import android.content.res.AssetManager
import java.io.File
import java.io.InputStream
import java.net.URI

open class Context {
    val assets = AssetManager(File("."))
}

class ContentResolver {
    fun openInputStream(place: URI): InputStream? = place.toURL().openStream()
}

class Intent(val action: String) {
    val data: URI? = null

    fun setType(type: String) = apply { check(type.isNotEmpty()) }

    fun addCategory(category: String) = apply { check(category.isNotEmpty()) }

    companion object {
        const val ACTION_OPEN_DOCUMENT = "open"
        const val CATEGORY_OPENABLE = "openable"
    }
}
