// What the app's screen calls, to be compiled against; nothing of it is run.

package android.app

import android.content.ContentResolver
import android.content.Context
import android.content.Intent
import android.os.Bundle
import android.view.View

open class Activity : Context() {
    val contentResolver = ContentResolver()

    open fun onCreate(state: Bundle?) = Unit

    open fun onDestroy() = Unit

    open fun onActivityResult(request: Int, result: Int, data: Intent?) = Unit

    fun setContentView(view: View) = check(view.hashCode() != 0)

    fun startActivityForResult(intent: Intent, request: Int) = check(intent.hashCode() != request)

    fun runOnUiThread(action: () -> Unit) = action()

    companion object {
        const val RESULT_OK = -1
    }
}
